-- Who changed messages through `Admin`, and why. Each operation has one row, which its own transactions write.
CREATE TABLE outbox_audit (
    id uuid PRIMARY KEY,
    -- When its first transaction wrote.
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it ended: NULL while it runs, and for good if its process died.
    ended_at timestamptz,
    -- NULL if nobody was named.
    actor text,
    -- The method of `Admin`.
    action text NOT NULL,
    -- The message, where it is of one.
    message_id uuid,
    -- What else it was given.
    filter jsonb,
    reason text,
    -- How many messages or topics it has changed so far.
    changed bigint NOT NULL
);

-- Finds a time, and what is to be removed.
CREATE INDEX outbox_audit_began ON outbox_audit (began_at, id);

-- Finds the operations of an actor.
CREATE INDEX outbox_audit_actor ON outbox_audit (actor, began_at, id);

-- Finds those of one kind.
CREATE INDEX outbox_audit_action ON outbox_audit (action, began_at, id);

-- Finds those on a message.
CREATE INDEX outbox_audit_message ON outbox_audit (message_id, began_at, id) WHERE message_id IS NOT NULL;

COMMENT ON TABLE outbox_audit IS 'diesel-outbox schema 1';
