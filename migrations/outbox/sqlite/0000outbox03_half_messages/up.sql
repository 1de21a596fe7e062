-- What became of half messages of RocketMQ: a row for each whose transaction committed, until the broker knows it.
CREATE TABLE outbox_half_messages (
    /* diesel-outbox schema 1 */
    message_id blob NOT NULL PRIMARY KEY CHECK (length(message_id) = 16),
    topic text NOT NULL,
    -- Written by a check-back that found no row: the message's transaction can commit no more.
    is_void integer NOT NULL DEFAULT 0,
    created_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
) STRICT;

-- Finds what is left over.
CREATE INDEX outbox_half_messages_created ON outbox_half_messages (created_at);
