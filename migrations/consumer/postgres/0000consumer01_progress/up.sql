-- How far each partition is processed, for consumers that keep that in the database. The handler's transaction moves it on.
CREATE TABLE outbox_consumer_offsets (
    consumer text NOT NULL,
    topic text NOT NULL,
    partition_name text NOT NULL,
    -- The first offset that is not processed.
    next_offset bigint NOT NULL,
    PRIMARY KEY (consumer, topic, partition_name)
) WITH (fillfactor = 50);

COMMENT ON TABLE outbox_consumer_offsets IS 'diesel-outbox schema 1';

-- Records that failed for good, and what follows of their keys. They are removed when they are replayed.
CREATE TABLE outbox_parked (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer text NOT NULL,
    topic text NOT NULL,
    partition_name text NOT NULL,
    record_offset bigint NOT NULL,
    record_key bytea,
    headers jsonb NOT NULL,
    payload bytea,
    -- The record's timestamp, in milliseconds from 1970; -1 if it has none.
    sent_at_ms bigint NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- 1 if what follows of its key is parked after it, 0 if it was parked alone.
    holds_key bigint NOT NULL,
    -- 1 once somebody has released it, until the consumer begins to process it.
    released bigint NOT NULL DEFAULT 0,
    -- How often it was released.
    replays bigint NOT NULL DEFAULT 0,
    error text NOT NULL,
    UNIQUE (consumer, topic, partition_name, record_offset, sent_at_ms)
);

-- Finds the first of a key. Of its beginning, because an index row has 2,704 bytes at most.
CREATE INDEX outbox_parked_key ON outbox_parked (consumer, topic, partition_name, substr(record_key, 1, 255), id) WHERE holds_key = 1;

-- Finds what is released.
CREATE INDEX outbox_parked_released ON outbox_parked (consumer, topic, partition_name, id) WHERE released = 1;

COMMENT ON TABLE outbox_parked IS 'diesel-outbox schema 1';
