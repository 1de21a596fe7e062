-- The comments of the tables are marks: the relay looks for them at start, and refuses tables of another version.
CREATE TABLE outbox_messages (
    id bigint unsigned NOT NULL AUTO_INCREMENT,
    message_id binary(16) NOT NULL,
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Which slice of an ordered topic's keys the row is in; -1 where order is not asked for.
    lane smallint NOT NULL DEFAULT -1,
    `key` varchar(1024),
    kind varchar(255) NOT NULL,
    -- A JSON array of [name, value] or [name, {"b64": value}]. Not json: nothing queries it, and text comes back as it was.
    headers longtext NOT NULL,
    -- NULL is a tombstone.
    payload longblob,
    -- From when on a sweeper may take the row, in UTC; until then it belongs to whoever set this.
    due_at datetime(6) NOT NULL,
    -- Of delayed messages only, in UTC.
    deliver_at datetime(6),
    -- Counts the writes of due_at: an outcome noted under an older one changes nothing.
    epoch int NOT NULL DEFAULT 0,
    -- Sends that failed because of the record; these use up the topic's attempts.
    attempts int NOT NULL DEFAULT 0,
    -- Sends that failed at all; these drive the back-off.
    failures int NOT NULL DEFAULT 0,
    -- The last failures: {at, class, error}.
    errors json NOT NULL DEFAULT ('[]'),
    created_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
    PRIMARY KEY (id),
    -- The commit hook knows a row by this alone: the session's last insert id is no proof of a row.
    UNIQUE KEY outbox_messages_message_id (message_id),
    KEY outbox_messages_due (topic, lane, due_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- Messages that were given up, with the reason.
CREATE TABLE outbox_dead_letters (
    id bigint unsigned NOT NULL,
    message_id binary(16) NOT NULL,
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    lane smallint NOT NULL,
    `key` varchar(1024),
    kind varchar(255) NOT NULL,
    headers longtext NOT NULL,
    payload longblob,
    due_at datetime(6) NOT NULL,
    deliver_at datetime(6),
    epoch int NOT NULL,
    attempts int NOT NULL,
    failures int NOT NULL,
    errors json NOT NULL,
    created_at datetime(6) NOT NULL,
    reason text NOT NULL,
    dead_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
    PRIMARY KEY (message_id),
    -- Counts the dead letters of a topic and finds its latest, without reading payloads.
    KEY outbox_dead_letters_topic (topic, dead_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
