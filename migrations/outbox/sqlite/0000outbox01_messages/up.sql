-- Instants are milliseconds since 1970, UTC. STRICT, because otherwise SQLite keeps any value in any column.
CREATE TABLE outbox_messages (
    /* diesel-outbox schema 1: the relay looks for this mark at start, and refuses tables of another version. */
    -- AUTOINCREMENT, because SQLite otherwise gives a deleted row's id to the next one.
    id integer PRIMARY KEY AUTOINCREMENT,
    message_id blob NOT NULL CHECK (length(message_id) = 16),
    topic text NOT NULL,
    -- Which slice of an ordered topic's keys the row is in; -1 where order is not asked for.
    lane integer NOT NULL DEFAULT -1,
    key text,
    kind text NOT NULL,
    -- A JSON array of [name, value] or [name, {"b64": value}].
    headers text NOT NULL,
    -- NULL is a tombstone.
    payload blob,
    -- From when on a sweeper may take the row; until then it belongs to whoever set this.
    due_at integer NOT NULL,
    -- Of delayed messages only.
    deliver_at integer,
    -- Counts the writes of due_at: an outcome noted under an older one changes nothing.
    epoch integer NOT NULL DEFAULT 0,
    -- Sends that failed because of the record; these use up the topic's attempts.
    attempts integer NOT NULL DEFAULT 0,
    -- Sends that failed at all; these drive the back-off.
    failures integer NOT NULL DEFAULT 0,
    -- The last failures: {at, class, error}.
    errors text NOT NULL DEFAULT '[]',
    -- Not unixepoch('subsec'), which is NULL before SQLite 3.42.
    created_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
) STRICT;

CREATE INDEX outbox_messages_due ON outbox_messages (topic, lane, due_at, id);

-- Finds a delayed message by its id, to cancel it.
CREATE INDEX outbox_messages_delayed ON outbox_messages (message_id) WHERE deliver_at IS NOT NULL;

-- Messages that were given up, with the reason.
CREATE TABLE outbox_dead_letters (
    /* diesel-outbox schema 1 */
    id integer NOT NULL,
    message_id blob NOT NULL PRIMARY KEY,
    topic text NOT NULL,
    lane integer NOT NULL,
    key text,
    kind text NOT NULL,
    headers text NOT NULL,
    payload blob,
    due_at integer NOT NULL,
    deliver_at integer,
    epoch integer NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    errors text NOT NULL,
    created_at integer NOT NULL,
    reason text NOT NULL,
    dead_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
) STRICT;

-- Counts the dead letters of a topic and finds its latest, without reading payloads.
CREATE INDEX outbox_dead_letters_topic ON outbox_dead_letters (topic, dead_at);
