-- Topics that relays leave alone until they are resumed. Each reads them together with what is due.
CREATE TABLE outbox_paused_topics (
    topic text PRIMARY KEY,
    -- Since when.
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE outbox_paused_topics IS 'diesel-outbox schema 1';
