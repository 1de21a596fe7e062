use crate::store::sql::text::statements;

statements! {
    /// What was done through `Admin`.
    AuditSql

    /// Adds to the entry of an operation how many it has changed ($7), or begins it. $8 is 1 if the operation is over.
    record {
        postgres: "
            INSERT INTO outbox_audit AS a (id, actor, action, message_id, filter, reason, changed, ended_at)
            VALUES ($1, $2, $3, $4::uuid, $5::jsonb, $6, $7, CASE WHEN $8 = 1 THEN clock_timestamp() END)
            ON CONFLICT (id) DO UPDATE SET changed = a.changed + excluded.changed";
        mysql: "
            INSERT INTO outbox_audit (id, actor, action, message_id, filter, reason, changed, began_at, ended_at)
            VALUES (UNHEX(?1), ?2, ?3, UNHEX(?4), ?5, ?6, ?7, UTC_TIMESTAMP(6), IF(?8 = 1, UTC_TIMESTAMP(6), NULL))
            ON DUPLICATE KEY UPDATE changed = outbox_audit.changed + VALUES(changed)";
        sqlite: "
            INSERT INTO outbox_audit AS a (id, actor, action, message_id, filter, reason, changed, began_at, ended_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {now}, CASE WHEN ?8 = 1 THEN {now} END)
            ON CONFLICT (id) DO UPDATE SET changed = a.changed + excluded.changed";
    }

    end {
        postgres: "UPDATE outbox_audit SET ended_at = clock_timestamp() WHERE id = $1";
        mysql: "UPDATE outbox_audit SET ended_at = UTC_TIMESTAMP(6) WHERE id = UNHEX(?1)";
        sqlite: "UPDATE outbox_audit SET ended_at = {now} WHERE id = ?1";
    }

    /// The beginning of a search.
    select {
        postgres: "
            SELECT id, began_at, ended_at, actor, action, message_id, filter::text, reason, changed
            FROM outbox_audit";
        mysql: "
            SELECT id, TIMESTAMPDIFF(MICROSECOND, {epoch}, began_at), TIMESTAMPDIFF(MICROSECOND, {epoch}, ended_at), actor, action,
              message_id, CAST(filter AS CHAR), reason, changed
            FROM outbox_audit";
        sqlite: "
            SELECT id, began_at, ended_at, actor, action, message_id, filter, reason, changed
            FROM outbox_audit";
    }

    // PostgreSQL: by an array, of which the planner expects few elements, so that it reads no whole table.
    /// Removes entries older than an age, the oldest first, and at most a given number.
    prune {
        postgres: "
            DELETE FROM outbox_audit WHERE id = ANY (ARRAY (
              SELECT id FROM outbox_audit
              WHERE began_at < statement_timestamp() - $1 * interval '1 millisecond' ORDER BY began_at LIMIT $2 FOR UPDATE SKIP LOCKED
            ))";
        mysql: "
            DELETE FROM outbox_audit WHERE began_at < UTC_TIMESTAMP(6) - INTERVAL ?1 MICROSECOND
            ORDER BY began_at LIMIT ?2";
        sqlite: "
            DELETE FROM outbox_audit WHERE id IN (
              SELECT id FROM outbox_audit WHERE began_at < {now} - ?1 ORDER BY began_at LIMIT ?2
            )";
    }
}
