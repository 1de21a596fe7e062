-- What became of half messages of RocketMQ: a row for each whose transaction committed, until the broker knows it.
CREATE TABLE outbox_half_messages (
    message_id uuid PRIMARY KEY,
    topic text NOT NULL,
    -- Written by a check-back that found no row: the message's transaction can commit no more.
    is_void boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Finds what is left over.
CREATE INDEX outbox_half_messages_created ON outbox_half_messages (created_at);

COMMENT ON TABLE outbox_half_messages IS 'diesel-outbox schema 1';
