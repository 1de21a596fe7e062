DROP TABLE outbox_dead_letters;
DROP TABLE outbox_messages;
