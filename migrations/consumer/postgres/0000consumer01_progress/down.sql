DROP TABLE outbox_parked;
DROP TABLE outbox_consumer_offsets;
