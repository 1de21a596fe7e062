DROP TABLE outbox_audit;
