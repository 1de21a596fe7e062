-- The messages that consumers have handled. Ids begin with the time at which they were made, so a partition holds the entries of
-- one day, and old ones are removed by the partition. `Inbox::prune` makes the partitions of days.
CREATE TABLE outbox_inbox (
    message_id uuid NOT NULL,
    -- The number of the consumer's name.
    consumer bigint NOT NULL,
    PRIMARY KEY (message_id, consumer)
) PARTITION BY RANGE (message_id);

-- Takes the days without a partition: a claim fails for none.
CREATE TABLE outbox_inbox_default PARTITION OF outbox_inbox DEFAULT;

-- Takes keys without an age, which are never removed.
CREATE TABLE outbox_inbox_undated PARTITION OF outbox_inbox
    FOR VALUES FROM ('ffff0000-0000-0000-0000-000000000000') TO (MAXVALUE);

-- Whose number is which, and for how long each consumer needs its entries.
CREATE TABLE outbox_inbox_consumers (
    consumer bigint PRIMARY KEY,
    name text NOT NULL,
    keep_days integer NOT NULL
);

-- Older messages are refused: milliseconds since 1970. A sequence, because a claim has to see the newest value, and not the one of
-- its snapshot.
CREATE SEQUENCE outbox_inbox_start MINVALUE 0 START 0;

COMMENT ON TABLE outbox_inbox IS 'diesel-outbox schema 1';
