DROP TABLE outbox_processed_marks;
DROP TABLE outbox_history;
