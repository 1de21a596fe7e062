-- Which node may send which slice of an ordered topic's keys. The rows of a topic are its lane count.
CREATE TABLE outbox_lanes (
    topic text NOT NULL,
    lane smallint NOT NULL CHECK (lane >= 0),
    -- NULL where the lane was handed over and nobody has taken it yet.
    owner uuid,
    -- Counts the owners: an outcome noted under an older one changes nothing.
    fence bigint NOT NULL DEFAULT 0,
    -- From when on another node may take the lane.
    expires_at timestamptz NOT NULL DEFAULT 'epoch',
    -- Until when the owner sends nothing: what its dead predecessor had in flight may still arrive.
    quiet_until timestamptz NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (topic, lane)
);

-- The nodes that share the lanes of a topic.
CREATE TABLE outbox_nodes (
    topic text NOT NULL,
    node uuid NOT NULL,
    -- From when on the node counts as gone.
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (topic, node)
);

COMMENT ON TABLE outbox_lanes IS 'diesel-outbox schema 1';
COMMENT ON TABLE outbox_nodes IS 'diesel-outbox schema 1';
