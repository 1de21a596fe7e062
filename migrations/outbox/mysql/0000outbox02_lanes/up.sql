-- Which node may send which slice of an ordered topic's keys. The rows of a topic are its lane count.
CREATE TABLE outbox_lanes (
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    lane smallint NOT NULL CHECK (lane >= 0),
    -- NULL where the lane was handed over and nobody has taken it yet.
    owner binary(16),
    -- Counts the owners: an outcome noted under an older one changes nothing.
    fence bigint NOT NULL DEFAULT 0,
    -- From when on another node may take the lane, in UTC.
    expires_at datetime(6) NOT NULL DEFAULT '1970-01-01 00:00:00',
    -- Until when the owner sends nothing: what its dead predecessor had in flight may still arrive.
    quiet_until datetime(6) NOT NULL DEFAULT '1970-01-01 00:00:00',
    PRIMARY KEY (topic, lane)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- The nodes that share the lanes of a topic.
CREATE TABLE outbox_nodes (
    topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    node binary(16) NOT NULL,
    -- From when on the node counts as gone, in UTC.
    expires_at datetime(6) NOT NULL,
    PRIMARY KEY (topic, node)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- One row for each bucket of keys that an open transaction has locked: MySQL's named locks do not end with the transaction.
CREATE TABLE outbox_key_locks (
    bucket int NOT NULL,
    PRIMARY KEY (bucket)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';
