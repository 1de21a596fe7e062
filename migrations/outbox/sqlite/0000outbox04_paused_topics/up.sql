-- Topics that relays leave alone until they are resumed. Each reads them together with what is due.
CREATE TABLE outbox_paused_topics (
    /* diesel-outbox schema 1 */
    topic text NOT NULL PRIMARY KEY,
    -- Since when, in milliseconds from 1970.
    paused_at integer NOT NULL
) STRICT;
