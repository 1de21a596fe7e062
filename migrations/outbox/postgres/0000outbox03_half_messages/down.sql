DROP TABLE outbox_half_messages;
