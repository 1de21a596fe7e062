-- How far each partition is processed, for consumers that keep that in the database. The handler's transaction moves it on.
CREATE TABLE outbox_consumer_offsets (
    consumer varchar(255) NOT NULL,
    topic varchar(249) NOT NULL,
    partition_name varchar(64) NOT NULL,
    -- The first offset that is not processed.
    next_offset bigint NOT NULL,
    PRIMARY KEY (consumer, topic, partition_name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- Records that failed for good, and what follows of their keys. They are removed when they are replayed.
CREATE TABLE outbox_parked (
    id bigint NOT NULL AUTO_INCREMENT,
    consumer varchar(255) NOT NULL,
    topic varchar(249) NOT NULL,
    partition_name varchar(64) NOT NULL,
    record_offset bigint NOT NULL,
    record_key longblob,
    headers json NOT NULL,
    payload longblob,
    -- The record's timestamp, in milliseconds from 1970; -1 if it has none.
    sent_at_ms bigint NOT NULL,
    parked_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- 1 if what follows of its key is parked after it, 0 if it was parked alone.
    holds_key bigint NOT NULL,
    -- 1 once somebody has released it, until the consumer begins to process it.
    released bigint NOT NULL DEFAULT 0,
    -- How often it was released.
    replays bigint NOT NULL DEFAULT 0,
    error varchar(1024) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY outbox_parked_record (consumer, topic, partition_name, record_offset, sent_at_ms),
    -- Finds the first of a key.
    KEY outbox_parked_key (consumer, topic, partition_name, record_key(255), id),
    -- Finds what is released.
    KEY outbox_parked_released (consumer, topic, partition_name, released, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
