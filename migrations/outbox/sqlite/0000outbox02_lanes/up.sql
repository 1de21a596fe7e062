-- Which node may send which slice of an ordered topic's keys. The rows of a topic are its lane count.
CREATE TABLE outbox_lanes (
    /* diesel-outbox schema 1 */
    topic text NOT NULL,
    lane integer NOT NULL CHECK (lane >= 0),
    -- NULL where the lane was handed over and nobody has taken it yet.
    owner blob CHECK (length(owner) = 16),
    -- Counts the owners: an outcome noted under an older one changes nothing.
    fence integer NOT NULL DEFAULT 0,
    -- From when on another node may take the lane.
    expires_at integer NOT NULL DEFAULT 0,
    -- Until when the owner sends nothing: what its dead predecessor had in flight may still arrive.
    quiet_until integer NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, lane)
) STRICT;

-- The nodes that share the lanes of a topic.
CREATE TABLE outbox_nodes (
    /* diesel-outbox schema 1 */
    topic text NOT NULL,
    node blob NOT NULL CHECK (length(node) = 16),
    -- From when on the node counts as gone.
    expires_at integer NOT NULL,
    PRIMARY KEY (topic, node)
) STRICT;
