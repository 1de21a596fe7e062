-- Topics that relays leave alone until they are resumed. Each reads them together with what is due.
CREATE TABLE outbox_paused_topics (
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Since when, in UTC.
    paused_at datetime(6) NOT NULL,
    PRIMARY KEY (topic)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
