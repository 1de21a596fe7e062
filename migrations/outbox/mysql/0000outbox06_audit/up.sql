-- Who changed messages through `Admin`, and why. Each operation has one row, which its own transactions write.
CREATE TABLE outbox_audit (
    id binary(16) NOT NULL,
    -- When its first transaction wrote, in UTC.
    began_at datetime(6) NOT NULL,
    -- When it ended: NULL while it runs, and for good if its process died.
    ended_at datetime(6),
    -- NULL if nobody was named.
    actor varchar(255),
    -- The method of `Admin`.
    action varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- The message, where it is of one.
    message_id binary(16),
    -- What else it was given.
    filter json,
    reason varchar(1024),
    -- How many messages or topics it has changed so far.
    changed bigint NOT NULL,
    PRIMARY KEY (id),
    -- Finds a time, and what is to be removed.
    KEY outbox_audit_began (began_at, id),
    -- Finds the operations of an actor.
    KEY outbox_audit_actor (actor, began_at, id),
    -- Finds those of one kind.
    KEY outbox_audit_action (action, began_at, id),
    -- Finds those on a message.
    KEY outbox_audit_message (message_id, began_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
