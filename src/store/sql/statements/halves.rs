use crate::store::sql::text::statements;

statements! {
    /// Half messages' marks.
    HalfSql

    /// Those of a batch that are committed and not void.
    marked {
        postgres: "SELECT message_id FROM outbox_half_messages WHERE message_id = ANY($1) AND NOT is_void";
        mysql: "
            SELECT m.message_id FROM {ids}
            STRAIGHT_JOIN outbox_half_messages m FORCE INDEX (PRIMARY) ON m.message_id = UNHEX(k.message_id) WHERE NOT m.is_void";
        sqlite: "SELECT message_id FROM outbox_half_messages WHERE message_id IN ({ids}) AND NOT is_void";
    }

    /// Writes a void mark of a message and topic, unless there is one; waits for an open transaction that has written one.
    void {
        postgres: "INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES ($1, $2, true) ON CONFLICT DO NOTHING";
        // Not INSERT IGNORE, which would ignore any error.
        mysql: "
            INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES (UNHEX(?1), ?2, true)
            ON DUPLICATE KEY UPDATE is_void = is_void";
        sqlite: "INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES (?1, ?2, 1) ON CONFLICT DO NOTHING";
    }

    /// Whether a mark is void.
    read {
        postgres: "SELECT is_void::integer::bigint FROM outbox_half_messages WHERE message_id = $1";
        mysql: "SELECT CAST(is_void AS SIGNED) FROM outbox_half_messages WHERE message_id = UNHEX(?1)";
        sqlite: "SELECT is_void FROM outbox_half_messages WHERE message_id = ?1";
    }

    /// Removes those of a batch.
    remove {
        postgres: "DELETE FROM outbox_half_messages WHERE message_id = ANY($1)";
        mysql: "
            DELETE m FROM {ids}
            STRAIGHT_JOIN outbox_half_messages m FORCE INDEX (PRIMARY) ON m.message_id = UNHEX(k.message_id)";
        sqlite: "DELETE FROM outbox_half_messages WHERE message_id IN ({ids})";
    }

    /// Removes those older than an age, the oldest first, and at most a given number.
    prune {
        postgres: "
            DELETE FROM outbox_half_messages WHERE message_id IN (
              SELECT message_id FROM outbox_half_messages
              WHERE created_at < statement_timestamp() - $1 * interval '1 millisecond' ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
            )";
        mysql: "
            DELETE FROM outbox_half_messages WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ?1 MICROSECOND
            ORDER BY created_at LIMIT ?2";
        sqlite: "
            DELETE FROM outbox_half_messages WHERE message_id IN (
              SELECT message_id FROM outbox_half_messages WHERE created_at < {now} - ?1 ORDER BY created_at LIMIT ?2
            )";
    }
}
