use crate::store::sql::text::statements;

statements! {
    /// Reads of live messages, for people.
    LivePageSql

    // The last column is whether the row is due.
    @columns {
        postgres: "id, message_id, topic, lane, key, kind, headers, payload, created_at, due_at, deliver_at, epoch, attempts, failures,
              errors::text, (due_at <= statement_timestamp())::int::bigint";
        // The year 0 is no instant.
        mysql: "CAST(id AS SIGNED), message_id, topic, lane, `key`, kind, headers, payload, TIMESTAMPDIFF(MICROSECOND, {epoch}, created_at),
              COALESCE(TIMESTAMPDIFF(MICROSECOND, {epoch}, due_at), -9223372036854775807), TIMESTAMPDIFF(MICROSECOND, {epoch}, deliver_at),
              epoch, attempts, failures, CAST(errors AS CHAR), CAST(due_at <= UTC_TIMESTAMP(6) AS SIGNED)";
        sqlite: "id, message_id, topic, lane, key, kind, headers, payload, created_at, due_at, deliver_at, epoch, attempts, failures, errors,
              due_at <= {now}";
    }

    // The beginnings of searches. Each condition binds the topic first, and the last one a lane.
    /// The rows.
    rows {
        postgres: "SELECT {columns} FROM outbox_messages";
        mysql: "SELECT {columns} FROM outbox_messages FORCE INDEX (outbox_messages_due)";
        sqlite: "SELECT {columns} FROM outbox_messages";
    }

    /// Where they stand.
    positions {
        postgres: "SELECT due_at, id FROM outbox_messages";
        mysql: "SELECT due_at, id FROM outbox_messages FORCE INDEX (outbox_messages_due)";
        sqlite: "SELECT due_at, id FROM outbox_messages";
    }

    in_unordered {
        postgres: "WHERE topic = $1 AND lane = -1";
        mysql: "WHERE topic = ? AND lane = -1";
        sqlite: "WHERE topic = ?1 AND lane = -1";
    }

    in_due {
        postgres: "WHERE topic = $1 AND lane = -1 AND due_at <= statement_timestamp()";
        mysql: "WHERE topic = ? AND lane = -1 AND due_at <= UTC_TIMESTAMP(6)";
        sqlite: "WHERE topic = ?1 AND lane = -1 AND due_at <= {now}";
    }

    in_later {
        postgres: "WHERE topic = $1 AND lane = -1 AND due_at > statement_timestamp()";
        mysql: "WHERE topic = ? AND lane = -1 AND due_at > UTC_TIMESTAMP(6)";
        sqlite: "WHERE topic = ?1 AND lane = -1 AND due_at > {now}";
    }

    in_lane {
        postgres: "WHERE topic = $1 AND lane = $2 AND due_at = 'epoch'";
        mysql: "WHERE topic = ? AND lane = ? AND due_at = '1970-01-01 00:00:00'";
        sqlite: "WHERE topic = ?1 AND lane = ?2 AND due_at = 0";
    }

    /// The condition for a row that waits for its delivery time.
    is_delayed {
        postgres: "{is_delayed}";
        mysql: "{is_delayed}";
        sqlite: "{is_delayed}";
    }

    /// The end of a scan whose text replaces `{positions}`.
    scan_end {
        // No sort: it is switched off, and where it cannot be avoided its cost makes PostgreSQL compile the statement for 100 ms.
        postgres: "
            SELECT count(*) OVER w, last_value(due_at) OVER w, last_value(id) OVER w FROM ({positions}) s WINDOW w AS () LIMIT 1";
        mysql: "
            SELECT COUNT(*) OVER (), COALESCE(TIMESTAMPDIFF(MICROSECOND, {epoch}, due_at), -9223372036854775807), CAST(id AS SIGNED)
            FROM ({positions}) s ORDER BY due_at DESC, id DESC LIMIT 1";
        sqlite: "SELECT count(*) OVER (), due_at, id FROM ({positions}) s ORDER BY due_at DESC, id DESC LIMIT 1";
    }

    /// One message, by row id and message id.
    one {
        postgres: "SELECT {columns} FROM outbox_messages WHERE id = $1 AND message_id = $2";
        mysql: "SELECT {columns} FROM outbox_messages FORCE INDEX (PRIMARY) WHERE id = ?1 AND message_id = UNHEX(?2)";
        sqlite: "SELECT {columns} FROM outbox_messages WHERE id = ?1 AND message_id = ?2";
    }

    /// The row id of a message, as far as an index has message ids: elsewhere than on MySQL only that of a delayed one.
    indexed_id {
        postgres: "SELECT id FROM outbox_messages WHERE message_id = $1 AND deliver_at IS NOT NULL";
        mysql: "
            SELECT CAST(id AS SIGNED) FROM outbox_messages FORCE INDEX (outbox_messages_message_id) WHERE message_id = UNHEX(?1)";
        sqlite: "SELECT id FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL";
    }

    /// Looks for a message in some rows by their row ids: the last of these rows, and the row id of the message.
    id_step {
        postgres: "
            SELECT max(id), max(id) FILTER (WHERE message_id = $1)
            FROM (SELECT id, message_id FROM outbox_messages WHERE id > $2 ORDER BY id LIMIT $3) s";
        sqlite: "
            SELECT max(id), max(CASE WHEN message_id = ?1 THEN id END)
            FROM (SELECT id, message_id FROM outbox_messages WHERE id > ?2 ORDER BY id LIMIT ?3) s";
    }

    /// Whether an earlier row of a key has failed, how many rows were read behind it, and how many of them are of the key.
    key_neighbours {
        postgres: "
            SELECT b.failed, a.rows, a.same FROM (
              SELECT count(*) AS failed FROM (
                SELECT key, failures FROM outbox_messages
                WHERE topic = $1 AND lane = $2 AND due_at = 'epoch' AND id < $4 ORDER BY id DESC LIMIT $5
              ) s WHERE s.key = $3 AND s.failures > 0
            ) b CROSS JOIN (
              SELECT count(*) AS rows, count(*) FILTER (WHERE s.key = $3) AS same FROM (
                SELECT key FROM outbox_messages
                WHERE topic = $1 AND lane = $2 AND due_at = 'epoch' AND id > $4 ORDER BY id LIMIT $5
              ) s
            ) a";
        mysql: "
            SELECT b.failed, a.found, a.same FROM (
              SELECT COUNT(*) AS failed FROM (
                SELECT `key`, failures FROM outbox_messages FORCE INDEX (outbox_messages_due)
                WHERE topic = ?1 AND lane = ?2 AND due_at = '1970-01-01 00:00:00' AND id < ?4 ORDER BY id DESC LIMIT ?5
              ) s WHERE s.`key` = ?3 AND s.failures > 0
            ) b CROSS JOIN (
              SELECT COUNT(*) AS found, CAST(COALESCE(SUM(s.`key` = ?3), 0) AS SIGNED) AS same FROM (
                SELECT `key` FROM outbox_messages FORCE INDEX (outbox_messages_due)
                WHERE topic = ?1 AND lane = ?2 AND due_at = '1970-01-01 00:00:00' AND id > ?4 ORDER BY id LIMIT ?5
              ) s
            ) a";
        sqlite: "
            SELECT b.failed, a.found, a.same FROM (
              SELECT count(*) AS failed FROM (
                SELECT key, failures FROM outbox_messages
                WHERE topic = ?1 AND lane = ?2 AND due_at = 0 AND id < ?4 ORDER BY id DESC LIMIT ?5
              ) s WHERE s.key = ?3 AND s.failures > 0
            ) b CROSS JOIN (
              SELECT count(*) AS found, coalesce(sum(s.key = ?3), 0) AS same FROM (
                SELECT key FROM outbox_messages
                WHERE topic = ?1 AND lane = ?2 AND due_at = 0 AND id > ?4 ORDER BY id LIMIT ?5
              ) s
            ) a";
    }

    /// How many rows are due; are due later, and of them leased, delayed and retrying; are in lanes, and have failed there.
    count {
        postgres: "
            SELECT due.rows, l.rows, l.leased, l.delayed, l.retrying, o.rows, o.failed FROM (
              SELECT count(*) AS rows FROM (
                SELECT 1 FROM outbox_messages WHERE topic = $1 AND lane = -1 AND due_at <= statement_timestamp() ORDER BY due_at LIMIT $2
              ) s
            ) due CROSS JOIN (
              SELECT count(*) AS rows, count(*) FILTER (WHERE NOT {is_delayed} AND failures <= 0) AS leased,
                count(*) FILTER (WHERE {is_delayed}) AS delayed, count(*) FILTER (WHERE NOT {is_delayed} AND failures > 0) AS retrying
              FROM (
                SELECT epoch, failures, deliver_at FROM outbox_messages
                WHERE topic = $1 AND lane = -1 AND due_at > statement_timestamp() ORDER BY due_at LIMIT $2
              ) s
            ) l CROSS JOIN (
              SELECT count(*) AS rows, count(*) FILTER (WHERE failures > 0) AS failed
              FROM (SELECT failures FROM outbox_messages WHERE topic = $1 AND lane >= 0 ORDER BY lane, due_at, id LIMIT $2) s
            ) o";
        mysql: "
            SELECT due.found, l.found, l.leased, l.delayed_rows, l.retrying, o.found, o.failed FROM (
              SELECT COUNT(*) AS found FROM (
                SELECT 1 FROM outbox_messages FORCE INDEX (outbox_messages_due)
                WHERE topic = ?1 AND lane = -1 AND due_at <= UTC_TIMESTAMP(6) ORDER BY due_at LIMIT ?2
              ) s
            ) due CROSS JOIN (
              SELECT COUNT(*) AS found, CAST(COALESCE(SUM(NOT {is_delayed} AND failures <= 0), 0) AS SIGNED) AS leased,
                CAST(COALESCE(SUM({is_delayed}), 0) AS SIGNED) AS delayed_rows,
                CAST(COALESCE(SUM(NOT {is_delayed} AND failures > 0), 0) AS SIGNED) AS retrying
              FROM (
                SELECT epoch, failures, deliver_at FROM outbox_messages FORCE INDEX (outbox_messages_due)
                WHERE topic = ?1 AND lane = -1 AND due_at > UTC_TIMESTAMP(6) ORDER BY due_at LIMIT ?2
              ) s
            ) l CROSS JOIN (
              SELECT COUNT(*) AS found, CAST(COALESCE(SUM(failures > 0), 0) AS SIGNED) AS failed FROM (
                SELECT failures FROM outbox_messages FORCE INDEX (outbox_messages_due)
                WHERE topic = ?1 AND lane >= 0 ORDER BY lane, due_at, id LIMIT ?2
              ) s
            ) o";
        sqlite: "
            SELECT due.found, l.found, l.leased, l.delayed, l.retrying, o.found, o.failed FROM (
              SELECT count(*) AS found FROM (
                SELECT 1 FROM outbox_messages WHERE topic = ?1 AND lane = -1 AND due_at <= {now} ORDER BY due_at LIMIT ?2
              ) s
            ) due CROSS JOIN (
              SELECT count(*) AS found, coalesce(sum(NOT {is_delayed} AND failures <= 0), 0) AS leased,
                coalesce(sum({is_delayed}), 0) AS delayed, coalesce(sum(NOT {is_delayed} AND failures > 0), 0) AS retrying
              FROM (
                SELECT epoch, failures, deliver_at FROM outbox_messages
                WHERE topic = ?1 AND lane = -1 AND due_at > {now} ORDER BY due_at LIMIT ?2
              ) s
            ) l CROSS JOIN (
              SELECT count(*) AS found, coalesce(sum(failures > 0), 0) AS failed
              FROM (SELECT failures FROM outbox_messages WHERE topic = ?1 AND lane >= 0 ORDER BY lane, due_at, id LIMIT ?2) s
            ) o";
    }

    /// How many rows are due from one instant on and before another.
    count_due {
        postgres: "
            SELECT count(*) FROM (
              SELECT 1 FROM outbox_messages WHERE topic = $1 AND lane = -1 AND due_at >= $2 AND due_at < $3 ORDER BY due_at LIMIT $4
            ) s";
        mysql: "
            SELECT COUNT(*) FROM (
              SELECT 1 FROM outbox_messages FORCE INDEX (outbox_messages_due)
              WHERE topic = ?1 AND lane = -1 AND due_at >= TIMESTAMPADD(MICROSECOND, ?2, {epoch})
                AND due_at < TIMESTAMPADD(MICROSECOND, ?3, {epoch}) ORDER BY due_at LIMIT ?4
            ) s";
        sqlite: "
            SELECT count(*) FROM (
              SELECT 1 FROM outbox_messages WHERE topic = ?1 AND lane = -1 AND due_at >= ?2 AND due_at < ?3 ORDER BY due_at LIMIT ?4
            ) s";
    }

    /// The first topic after another.
    next_topic {
        postgres: "SELECT topic FROM outbox_messages WHERE topic > $1 ORDER BY topic LIMIT 1";
        mysql: "SELECT topic FROM outbox_messages FORCE INDEX (outbox_messages_due) WHERE topic > ?1 ORDER BY topic LIMIT 1";
        sqlite: "SELECT topic FROM outbox_messages WHERE topic > ?1 ORDER BY topic LIMIT 1";
    }
}
