-- Messages that were sent, of topics that keep them.
CREATE TABLE outbox_history (
    /* diesel-outbox schema 1 */
    id integer NOT NULL,
    message_id blob NOT NULL PRIMARY KEY CHECK (length(message_id) = 16),
    topic text NOT NULL,
    lane integer NOT NULL,
    key text,
    kind text NOT NULL,
    headers text NOT NULL,
    payload blob,
    deliver_at integer,
    epoch integer NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    errors text NOT NULL,
    created_at integer NOT NULL,
    -- When its acknowledgement was settled.
    sent_at integer NOT NULL,
    -- The first day on which it is kept no longer, in days since 1970, UTC.
    falls_on integer NOT NULL,
    -- Whether its consumer says when it has processed it.
    awaits_processing integer NOT NULL,
    processed_at integer
) STRICT;

-- Finds the messages of a key; counts those of a topic.
CREATE INDEX outbox_history_key ON outbox_history (topic, key, sent_at, message_id);

-- Finds what its consumer has not confirmed.
CREATE INDEX outbox_history_unprocessed ON outbox_history (topic, sent_at, message_id)
    WHERE awaits_processing = 1 AND processed_at IS NULL;

-- Finds what is kept no longer.
CREATE INDEX outbox_history_falls ON outbox_history (falls_on);

-- Consumers' marks that came before their message was settled.
CREATE TABLE outbox_processed_marks (
    /* diesel-outbox schema 1 */
    message_id blob NOT NULL PRIMARY KEY CHECK (length(message_id) = 16),
    marked_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
) STRICT;

-- Finds the old ones.
CREATE INDEX outbox_processed_marks_age ON outbox_processed_marks (marked_at);
