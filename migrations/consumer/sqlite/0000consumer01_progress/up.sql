-- How far each partition is processed, for consumers that keep that in the database. The handler's transaction moves it on.
CREATE TABLE outbox_consumer_offsets (
    /* diesel-outbox schema 1 */
    consumer text NOT NULL,
    topic text NOT NULL,
    partition_name text NOT NULL,
    -- The first offset that is not processed.
    next_offset integer NOT NULL,
    PRIMARY KEY (consumer, topic, partition_name)
) STRICT, WITHOUT ROWID;

-- Records that failed for good, and what follows of their keys. They are removed when they are replayed.
CREATE TABLE outbox_parked (
    /* diesel-outbox schema 1 */
    id integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    consumer text NOT NULL,
    topic text NOT NULL,
    partition_name text NOT NULL,
    record_offset integer NOT NULL,
    record_key blob,
    headers text NOT NULL,
    payload blob,
    -- The record's timestamp, in milliseconds from 1970; -1 if it has none.
    sent_at_ms integer NOT NULL,
    -- In milliseconds from 1970.
    parked_at integer NOT NULL,
    -- 1 if what follows of its key is parked after it, 0 if it was parked alone.
    holds_key integer NOT NULL,
    -- 1 once somebody has released it, until the consumer begins to process it.
    released integer NOT NULL DEFAULT 0,
    -- How often it was released.
    replays integer NOT NULL DEFAULT 0,
    error text NOT NULL
) STRICT;

-- A record is parked once. A topic that was made anew has the same offsets again, at other times.
CREATE UNIQUE INDEX outbox_parked_record ON outbox_parked (consumer, topic, partition_name, record_offset, sent_at_ms);

-- Finds the first of a key.
CREATE INDEX outbox_parked_key ON outbox_parked (consumer, topic, partition_name, record_key, id) WHERE holds_key = 1;

-- Finds what is released.
CREATE INDEX outbox_parked_released ON outbox_parked (consumer, topic, partition_name, id) WHERE released = 1;
