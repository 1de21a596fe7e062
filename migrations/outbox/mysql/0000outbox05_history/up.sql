-- Messages that were sent, of topics that keep them.
CREATE TABLE outbox_history (
    id bigint unsigned NOT NULL,
    message_id binary(16) NOT NULL,
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    lane smallint NOT NULL,
    `key` varchar(1024),
    kind varchar(255) NOT NULL,
    headers longtext NOT NULL,
    payload longblob,
    deliver_at datetime(6),
    epoch int NOT NULL,
    attempts int NOT NULL,
    failures int NOT NULL,
    errors json NOT NULL,
    created_at datetime(6) NOT NULL,
    -- When its acknowledgement was settled, in UTC.
    sent_at datetime(6) NOT NULL,
    -- The first day, in UTC, on which it is kept no longer.
    falls_on date NOT NULL,
    -- Whether its consumer says when it has processed it.
    awaits_processing tinyint NOT NULL,
    processed_at datetime(6),
    PRIMARY KEY (message_id),
    -- Finds the messages of a key; a prefix of it, because an index has 3,072 bytes and a key may have more.
    KEY outbox_history_key (topic, `key`(190), sent_at, message_id),
    -- Finds what its consumer has not confirmed.
    KEY outbox_history_unprocessed (topic, awaits_processing, processed_at, sent_at, message_id),
    -- Finds what is kept no longer.
    KEY outbox_history_falls (falls_on)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- Consumers' marks that came before their message was settled.
CREATE TABLE outbox_processed_marks (
    message_id binary(16) NOT NULL,
    marked_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
    PRIMARY KEY (message_id),
    -- Finds the old ones.
    KEY outbox_processed_marks_age (marked_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
