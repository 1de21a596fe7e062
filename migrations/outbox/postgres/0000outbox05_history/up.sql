-- Messages that were sent, of topics that keep them. A day partition falls as a whole, so it holds what is kept until the same
-- day, however long each topic keeps it; the relay makes the partitions ahead.
CREATE TABLE outbox_history (
    id bigint NOT NULL,
    message_id uuid NOT NULL,
    topic text NOT NULL,
    lane smallint NOT NULL,
    key text,
    kind text NOT NULL,
    headers text NOT NULL,
    payload bytea,
    deliver_at timestamptz,
    epoch integer NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    errors jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    -- When its acknowledgement was settled.
    sent_at timestamptz NOT NULL,
    -- The first day, in UTC, on which it is kept no longer.
    falls_on date NOT NULL,
    -- Whether its consumer says when it has processed it.
    awaits_processing boolean NOT NULL,
    processed_at timestamptz,
    PRIMARY KEY (message_id, falls_on)
) PARTITION BY RANGE (falls_on);

-- Takes what no day partition is there for: a settle fails for nothing.
CREATE TABLE outbox_history_default PARTITION OF outbox_history DEFAULT;

-- Finds there what is to be deleted, and which days have rows there.
CREATE INDEX outbox_history_default_falls ON outbox_history_default (falls_on);

-- Finds the messages of a key; counts those of a topic.
CREATE INDEX outbox_history_key ON outbox_history (topic, key, sent_at, message_id);

-- Finds what its consumer has not confirmed.
CREATE INDEX outbox_history_unprocessed ON outbox_history (topic, sent_at, message_id)
    WHERE awaits_processing AND processed_at IS NULL;

-- Consumers' marks that came before their message was settled.
CREATE TABLE outbox_processed_marks (
    message_id uuid PRIMARY KEY,
    marked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Finds the old ones.
CREATE INDEX outbox_processed_marks_age ON outbox_processed_marks (marked_at);

COMMENT ON TABLE outbox_history IS 'diesel-outbox schema 1';
COMMENT ON TABLE outbox_processed_marks IS 'diesel-outbox schema 1';
