-- What became of half messages of RocketMQ: a row for each whose transaction committed, until the broker knows it.
CREATE TABLE outbox_half_messages (
    message_id binary(16) NOT NULL,
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Written by a check-back that found no row: the message's transaction can commit no more.
    is_void boolean NOT NULL DEFAULT false,
    created_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
    PRIMARY KEY (message_id),
    -- Finds what is left over.
    KEY outbox_half_messages_created (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
