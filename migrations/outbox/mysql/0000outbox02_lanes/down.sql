DROP TABLE outbox_key_locks;
DROP TABLE outbox_nodes;
DROP TABLE outbox_lanes;
