-- Who changed messages through `Admin`, and why. Each operation has one row, which its own transactions write.
CREATE TABLE outbox_audit (
    /* diesel-outbox schema 1 */
    id blob NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    -- When its first transaction wrote, in milliseconds from 1970.
    began_at integer NOT NULL,
    -- When it ended: NULL while it runs, and for good if its process died.
    ended_at integer,
    -- NULL if nobody was named.
    actor text,
    -- The method of `Admin`.
    action text NOT NULL,
    -- The message, where it is of one.
    message_id blob CHECK (length(message_id) = 16),
    -- What else it was given, as JSON.
    filter text,
    reason text,
    -- How many messages or topics it has changed so far.
    changed integer NOT NULL
) STRICT;

-- Finds a time, and what is to be removed.
CREATE INDEX outbox_audit_began ON outbox_audit (began_at, id);

-- Finds the operations of an actor.
CREATE INDEX outbox_audit_actor ON outbox_audit (actor, began_at, id);

-- Finds those of one kind.
CREATE INDEX outbox_audit_action ON outbox_audit (action, began_at, id);

-- Finds those on a message.
CREATE INDEX outbox_audit_message ON outbox_audit (message_id, began_at, id) WHERE message_id IS NOT NULL;
