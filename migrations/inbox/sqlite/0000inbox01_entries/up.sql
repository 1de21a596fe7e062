-- The messages that consumers have handled. Ids begin with the time at which they were made, so old ones are removed along the
-- primary key.
CREATE TABLE outbox_inbox (
    /* diesel-outbox schema 1 */
    message_id blob NOT NULL CHECK (length(message_id) = 16),
    -- The number of the consumer's name.
    consumer integer NOT NULL,
    PRIMARY KEY (message_id, consumer)
) STRICT, WITHOUT ROWID;

-- Whose number is which, and for how long each consumer needs its entries.
CREATE TABLE outbox_inbox_consumers (
    consumer integer NOT NULL PRIMARY KEY,
    name text NOT NULL,
    keep_days integer NOT NULL
) STRICT;

-- One row. Older messages are refused: milliseconds since 1970.
CREATE TABLE outbox_inbox_start (
    id integer NOT NULL PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    kept_from integer NOT NULL
) STRICT;

INSERT INTO outbox_inbox_start (kept_from) VALUES (0);
