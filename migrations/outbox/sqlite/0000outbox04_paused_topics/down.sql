DROP TABLE outbox_paused_topics;
