-- The messages that consumers have handled. Ids begin with the time at which they were made, so old ones are removed along the
-- primary key.
CREATE TABLE outbox_inbox (
    message_id binary(16) NOT NULL,
    -- The number of the consumer's name.
    consumer bigint NOT NULL,
    -- How many copies came after the first: a claim sees by it whether it was the first.
    copies int unsigned NOT NULL DEFAULT 0,
    PRIMARY KEY (message_id, consumer)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- Whose number is which, and for how long each consumer needs its entries.
CREATE TABLE outbox_inbox_consumers (
    consumer bigint NOT NULL,
    name varchar(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    keep_days int NOT NULL,
    PRIMARY KEY (consumer)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

-- One row. Older messages are refused: milliseconds since 1970.
CREATE TABLE outbox_inbox_start (
    id tinyint NOT NULL DEFAULT 1 CHECK (id = 1),
    kept_from bigint NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'diesel-outbox schema 1';

INSERT INTO outbox_inbox_start (kept_from) VALUES (0);
