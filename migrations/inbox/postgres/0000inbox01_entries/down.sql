DROP SEQUENCE outbox_inbox_start;
DROP TABLE outbox_inbox_consumers;
DROP TABLE outbox_inbox;
