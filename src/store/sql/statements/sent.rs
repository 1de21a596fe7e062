use crate::store::sql::text::statements;

statements! {
    /// Reads and admin writes of sent messages.
    SentSql

    @sent {
        postgres: "SELECT {sent_columns} FROM outbox_history h {sent_marks}";
        mysql: "SELECT {sent_columns} FROM outbox_history h {sent_marks}";
        sqlite: "SELECT {sent_columns} FROM outbox_history h {sent_marks}";
    }

    // In a lane, each failure and each requeue raises the epoch, and a requeue sets the failures to 0.
    @sent_columns {
        postgres: "h.message_id, h.topic, h.lane, h.key, h.kind, h.headers, h.payload, h.created_at, h.sent_at, h.attempts, h.failures,
              h.awaits_processing::int::bigint, (coalesce(h.processed_at, p.marked_at) IS NOT NULL)::int::bigint,
              coalesce(h.processed_at, p.marked_at, h.sent_at), h.id, h.deliver_at, (h.lane >= 0 AND h.epoch > h.failures)::int::bigint";
        mysql: "h.message_id, h.topic, h.lane, h.`key`, h.kind, h.headers, h.payload,
              TIMESTAMPDIFF(MICROSECOND, {epoch}, h.created_at), TIMESTAMPDIFF(MICROSECOND, {epoch}, h.sent_at), h.attempts, h.failures,
              CAST(h.awaits_processing AS SIGNED), CAST(COALESCE(h.processed_at, p.marked_at) IS NOT NULL AS SIGNED),
              TIMESTAMPDIFF(MICROSECOND, {epoch}, COALESCE(h.processed_at, p.marked_at, h.sent_at)), CAST(h.id AS SIGNED),
              TIMESTAMPDIFF(MICROSECOND, {epoch}, h.deliver_at), CAST(h.lane >= 0 AND h.epoch > h.failures AS SIGNED)";
        sqlite: "h.message_id, h.topic, h.lane, h.key, h.kind, h.headers, h.payload, h.created_at, h.sent_at, h.attempts, h.failures,
              h.awaits_processing, coalesce(h.processed_at, p.marked_at) IS NOT NULL, coalesce(h.processed_at, p.marked_at, h.sent_at),
              h.id, h.deliver_at, h.lane >= 0 AND h.epoch > h.failures";
    }

    @sent_marks {
        postgres: "LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";
        mysql: "LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";
        sqlite: "LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";
    }

    @sent_cursor {
        postgres: "
            SELECT h.message_id, h.sent_at
            FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";
        mysql: "
            SELECT h.message_id, TIMESTAMPDIFF(MICROSECOND, {epoch}, h.sent_at)
            FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";
        sqlite: "
            SELECT h.message_id, h.sent_at
            FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";
    }

    @late {
        postgres: "
            WHERE h.topic = $1 AND h.awaits_processing AND h.processed_at IS NULL AND p.message_id IS NULL
              AND h.sent_at < statement_timestamp() - $2 * interval '1 millisecond' AND (h.sent_at, h.message_id) > ($3, $4) {page}";
        mysql: "
            WHERE h.topic = ?1 AND h.awaits_processing = 1 AND h.processed_at IS NULL
              AND p.message_id IS NULL AND h.sent_at < TIMESTAMPADD(MICROSECOND, -?2, UTC_TIMESTAMP(6)) {page}";
        sqlite: "
            WHERE h.topic = ?1 AND h.awaits_processing = 1 AND h.processed_at IS NULL
              AND p.message_id IS NULL AND h.sent_at < {now} - ?2 {page}";
    }

    @page {
        postgres: "ORDER BY h.sent_at, h.message_id LIMIT $5";
        // Spelled out, because a comparison of rows uses no index.
        mysql: "AND h.sent_at >= TIMESTAMPADD(MICROSECOND, ?3, {epoch}) AND (
            h.sent_at > TIMESTAMPADD(MICROSECOND, ?3, {epoch}) OR h.message_id > UNHEX(?4)
            ) ORDER BY h.sent_at, h.message_id LIMIT ?5";
        sqlite: "AND (h.sent_at, h.message_id) > (?3, ?4) ORDER BY h.sent_at, h.message_id LIMIT ?5";
    }

    @unreported {
        sqlite: "NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id)";
    }

    /// One of them.
    one {
        postgres: "{sent} WHERE h.message_id = $1 ORDER BY h.sent_at DESC LIMIT 1";
        mysql: "{sent} WHERE h.message_id = UNHEX(?1)";
        sqlite: "{sent} WHERE h.message_id = ?1";
    }

    of_key {
        postgres: "{sent} WHERE h.topic = $1 AND h.key = $2 AND (h.sent_at, h.message_id) > ($3, $4) {page}";
        mysql: "{sent} WHERE h.topic = ?1 AND h.`key` = ?2 {page}";
        sqlite: "{sent} WHERE h.topic = ?1 AND h.key = ?2 {page}";
    }

    unprocessed {
        postgres: "{sent} {late}";
        mysql: "{sent} {late}";
        sqlite: "{sent} {late}";
    }

    unprocessed_cursors {
        postgres: "{sent_cursor} {late}";
        mysql: "{sent_cursor} {late}";
        sqlite: "{sent_cursor} {late}";
    }

    /// The id of the last entry of a range of message ids, if it is cut off after so many.
    scan_end {
        postgres: "
            SELECT message_id FROM outbox_history WHERE message_id > $1 AND message_id <= $2 ORDER BY message_id LIMIT 1 OFFSET $3";
        mysql: "
            SELECT message_id FROM outbox_history FORCE INDEX (PRIMARY)
            WHERE message_id > UNHEX(?1) AND message_id <= UNHEX(?2) ORDER BY message_id LIMIT 1 OFFSET ?3";
        sqlite: "
            SELECT message_id FROM outbox_history WHERE message_id > ?1 AND message_id <= ?2 ORDER BY message_id LIMIT 1 OFFSET ?3";
    }

    // By message id alone: an index of the topic would find its messages of all times. Hence FORCE INDEX, and on SQLite the plus sign.
    /// The messages of a topic in such a range that were enqueued in a period.
    in_scan {
        postgres: "
            {sent} WHERE h.message_id > $1 AND h.message_id <= $2 AND h.topic = $3 AND h.created_at >= $4 AND h.created_at < $5
            ORDER BY h.message_id";
        mysql: "
            SELECT {sent_columns} FROM outbox_history h FORCE INDEX (PRIMARY) {sent_marks}
            WHERE h.message_id > UNHEX(?1) AND h.message_id <= UNHEX(?2) AND h.topic = ?3
              AND h.created_at >= TIMESTAMPADD(MICROSECOND, ?4, {epoch}) AND h.created_at < TIMESTAMPADD(MICROSECOND, ?5, {epoch})
            ORDER BY h.message_id";
        sqlite: "
            {sent} WHERE h.message_id > ?1 AND h.message_id <= ?2 AND +h.topic = ?3 AND h.created_at >= ?4 AND h.created_at < ?5
            ORDER BY h.message_id";
    }

    count {
        postgres: "
            SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_history WHERE topic = $1 LIMIT $2) r), (
              SELECT count(*) FROM (
                SELECT 1 FROM outbox_history h WHERE h.topic = $1 AND h.awaits_processing AND h.processed_at IS NULL
                  AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id) LIMIT $2
              ) r
            )";
        mysql: "
            SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM outbox_history WHERE topic = ?1 LIMIT ?2) r), (
              SELECT COUNT(*) FROM (
                SELECT 1 FROM outbox_history h WHERE h.topic = ?1 AND h.awaits_processing = 1 AND h.processed_at IS NULL
                  AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id) LIMIT ?2
              ) r
            )";
        sqlite: "
            SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_history WHERE topic = ?1 LIMIT ?2)), (
              SELECT count(*) FROM (
                SELECT 1 FROM outbox_history h WHERE h.topic = ?1 AND h.awaits_processing = 1 AND h.processed_at IS NULL AND {unreported}
                LIMIT ?2
              )
            )";
    }

    // Three cases: processed now, processed before, or not in the history yet. A settle that commits meanwhile is not seen: then the report
    // is stored separately, where every reader also looks.
    /// Records that consumers have processed messages.
    report_processed {
        postgres: "
            WITH k AS MATERIALIZED (
              SELECT DISTINCT message_id FROM unnest($1) AS k(message_id)
            ), l AS MATERIALIZED (
              SELECT h.message_id, h.falls_on, h.processed_at IS NOT NULL OR EXISTS (
                SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id
              ) AS was FROM outbox_history h WHERE h.message_id = ANY($1) ORDER BY h.message_id, h.falls_on FOR UPDATE OF h
            ), marked AS (
              UPDATE outbox_history h SET processed_at = clock_timestamp() FROM l
              WHERE h.message_id = l.message_id AND h.falls_on = l.falls_on AND NOT l.was
            ), ahead AS (
              INSERT INTO outbox_processed_marks (message_id)
              SELECT message_id FROM k WHERE message_id NOT IN (SELECT message_id FROM l) ORDER BY message_id
              ON CONFLICT DO NOTHING
            )
            SELECT k.message_id, (SELECT CASE WHEN bool_or(was) THEN 1 WHEN count(*) > 0 THEN 0 ELSE 2 END
              FROM l WHERE l.message_id = k.message_id)::bigint FROM k";
        mysql: "
            SELECT h.message_id, CAST(h.processed_at IS NOT NULL OR EXISTS (
              SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id
            ) AS SIGNED)
            FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id) FOR UPDATE", "
            UPDATE {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)
            SET h.processed_at = UTC_TIMESTAMP(6)", "
            INSERT INTO outbox_processed_marks (message_id) SELECT UNHEX(k.message_id) FROM {ids}
            ON DUPLICATE KEY UPDATE message_id = outbox_processed_marks.message_id";
        sqlite: "
            WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1)),
            asked(message_id) AS (SELECT DISTINCT substr(?1, place, 16) FROM k)
            SELECT a.message_id, CASE WHEN h.message_id IS NULL THEN 2 WHEN h.processed_at IS NOT NULL THEN 1 WHEN {unreported} THEN 0 ELSE 1 END
            FROM asked a LEFT JOIN outbox_history h ON h.message_id = a.message_id", "
            UPDATE outbox_history AS h SET processed_at = {now}
            WHERE h.message_id IN ({ids}) AND h.processed_at IS NULL AND {unreported}", "
            INSERT INTO outbox_processed_marks (message_id)
            SELECT message_id FROM (
              WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1))
              SELECT DISTINCT substr(?1, place, 16) AS message_id FROM k
            ) WHERE message_id NOT IN (SELECT message_id FROM outbox_history WHERE message_id IN ({ids}))
            ON CONFLICT (message_id) DO NOTHING";
    }

    keys {
        postgres: "SELECT message_id, topic, lane, key FROM outbox_history WHERE message_id = ANY($1)";
        mysql: "
            SELECT h.message_id, h.topic, h.lane, h.`key`
            FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)";
        sqlite: "SELECT message_id, topic, lane, key FROM outbox_history WHERE message_id IN ({ids})";
    }

    // Under a new id, in a lane or not: a late settle of the previous copy would otherwise remove this one.
    /// Moves messages that are not processed back to the live ones.
    resend {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT h.message_id, h.falls_on FROM outbox_history h
              WHERE h.message_id = ANY($1) AND h.processed_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id)
              ORDER BY h.message_id FOR UPDATE OF h SKIP LOCKED
            ), gone AS (
              DELETE FROM outbox_history h USING l WHERE h.message_id = l.message_id AND h.falls_on = l.falls_on RETURNING h.*
            ), back AS (
              INSERT INTO outbox_messages
                (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
              SELECT gone.message_id, topic, k.to_lane, key, kind, headers, payload,
                CASE WHEN k.to_lane >= 0 THEN timestamptz 'epoch' ELSE clock_timestamp() END, deliver_at, epoch % 2147483647 + 1, errors, created_at
              FROM gone JOIN unnest($1, $2) AS k(message_id, to_lane) ON k.message_id = gone.message_id ORDER BY gone.id
              RETURNING id, message_id
            )
            SELECT id, message_id FROM back";
        mysql: "
            SELECT CAST(h.id AS SIGNED), h.message_id
            FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)
            WHERE h.processed_at IS NULL AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id)
            FOR UPDATE SKIP LOCKED", "
            INSERT INTO outbox_messages
              (message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
            SELECT h.message_id, h.topic, k.lane, h.`key`, h.kind, h.headers, h.payload, IF(k.lane >= 0, {epoch}, UTC_TIMESTAMP(6)),
              h.deliver_at, h.epoch % 2147483647 + 1, h.errors, h.created_at
            FROM {requeues} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id) ORDER BY h.id",
            "DELETE h FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)";
        // ?1 holds the message ids and ?2 the lanes, in the same order.
        sqlite: "
            INSERT INTO outbox_messages
              (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
            SELECT h.message_id, h.topic, k.value, h.key, h.kind, h.headers, h.payload, CASE WHEN k.value >= 0 THEN 0 ELSE {now} END,
              h.deliver_at, h.epoch % 2147483647 + 1, h.errors, h.created_at
            FROM json_each(?2) k CROSS JOIN outbox_history h ON h.message_id = substr(?1, 16 * k.key + 1, 16)
            WHERE h.processed_at IS NULL AND {unreported} ORDER BY h.id RETURNING id, message_id", "
            DELETE FROM outbox_history WHERE message_id IN (
              SELECT h.message_id FROM outbox_history h WHERE h.processed_at IS NULL AND {unreported} AND h.message_id IN ({ids})
            )";
    }
}
