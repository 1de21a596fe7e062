DROP TABLE outbox_nodes;
DROP TABLE outbox_lanes;
