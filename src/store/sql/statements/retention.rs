use super::dead_letters::REMOVE;
use crate::store::sql::text::statements;

statements! {
    /// Removes expired rows. MySQL finds and locks them first.
    RetentionSql

    @old_processed_reports {
        sqlite: "SELECT message_id FROM outbox_processed_marks WHERE marked_at < {now} - ?1 ORDER BY marked_at LIMIT ?2";
    }

    /// Days without a partition: $1 is the history's name, $2 the numbers of days to keep, $3 how many days ahead.
    missing_days {
        // Days with rows in the default partition are left out: their partition cannot be attached, and the failure would undo the
        // others.
        postgres: "
            SELECT to_char(day, 'YYYYMMDD'), day::text, (day + 1)::text
            FROM (
              SELECT DISTINCT (statement_timestamp() AT TIME ZONE 'UTC')::date + days + 1 + ahead AS day
              FROM unnest($2) AS days CROSS JOIN generate_series(0, $3::int) AS ahead
            ) d WHERE to_regclass($1 || '_' || to_char(day, 'YYYYMMDD')) IS NULL
              AND NOT EXISTS (SELECT 1 FROM outbox_history_default h WHERE h.falls_on = d.day)
            ORDER BY day";
    }

    /// The oldest expired partition: $2 is the prefix of the names of day partitions.
    expired_day {
        postgres: "
            SELECT right(c.relname, 8), greatest(c.reltuples, 0)::bigint
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = to_regclass($1) AND starts_with(c.relname, $2) AND substr(c.relname, length($2) + 1) ~ '^[0-9]{8}$'
              AND right(c.relname, 8) <= to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')
            ORDER BY c.relname LIMIT 1";
    }

    // The length of a payload is stored in front of it, so the payload is not read. The length is computed at the row, because a
    // subquery returns whole columns.
    /// Of the first ?1 rows to remove, how many begin within ?2 bytes: always including the first.
    expired {
        sqlite: "
            SELECT count(*), count(*) FILTER (WHERE coalesce(bytes_before, 0) < ?2)
            FROM (
              SELECT sum(coalesce(bytes, 0)) OVER (
                ORDER BY falls_on, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
              ) AS bytes_before
              FROM (
                SELECT falls_on, rowid AS place, length(payload) AS bytes FROM outbox_history WHERE falls_on <= {today}
                ORDER BY falls_on, rowid LIMIT ?1
              )
            )";
    }

    /// Removes from the history, up to a number of rows. On PostgreSQL only from the default partition: day partitions are dropped whole.
    prune {
        postgres: "
            DELETE FROM outbox_history_default WHERE ctid = ANY (ARRAY (
              SELECT ctid FROM outbox_history_default WHERE falls_on <= (statement_timestamp() AT TIME ZONE 'UTC')::date
              ORDER BY falls_on LIMIT $1 FOR UPDATE SKIP LOCKED
            ))";
        mysql: "
            SELECT CAST(id AS SIGNED), message_id FROM outbox_history FORCE INDEX (outbox_history_falls)
            WHERE falls_on <= UTC_DATE() ORDER BY falls_on LIMIT ?1 FOR UPDATE SKIP LOCKED",
            "DELETE h FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)";
        sqlite: "
            DELETE FROM outbox_history WHERE rowid IN (
              SELECT rowid FROM outbox_history WHERE falls_on <= {today} ORDER BY falls_on, rowid LIMIT ?1
            )";
    }

    prune_dead_letters {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT message_id FROM outbox_dead_letters
              WHERE topic = $1 AND dead_at < statement_timestamp() - $2 * interval '1 millisecond'
              ORDER BY dead_at LIMIT $3 FOR UPDATE SKIP LOCKED
            )
            DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id";
        mysql: "
            SELECT CAST(id AS SIGNED), message_id FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic)
            WHERE topic = ?1 AND dead_at < TIMESTAMPADD(MICROSECOND, -?2, UTC_TIMESTAMP(6)) ORDER BY dead_at LIMIT ?3 FOR UPDATE SKIP LOCKED",
            REMOVE;
        sqlite: "
            DELETE FROM outbox_dead_letters WHERE message_id IN (
              SELECT message_id FROM outbox_dead_letters WHERE topic = ?1 AND dead_at < {now} - ?2 ORDER BY dead_at LIMIT ?3
            )";
    }

    /// Applies processed reports to their messages and removes them.
    apply_processed_reports {
        // By an array, of which the planner expects few elements: joined with as many as LIMIT allows, it would read the whole history.
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT message_id, marked_at FROM outbox_processed_marks
              WHERE marked_at < statement_timestamp() - $1 * interval '1 millisecond' ORDER BY marked_at LIMIT $2 FOR UPDATE SKIP LOCKED
            ), processed AS (
              UPDATE outbox_history h SET processed_at = (SELECT l.marked_at FROM l WHERE l.message_id = h.message_id)
              WHERE h.message_id = ANY (ARRAY (SELECT message_id FROM l)) AND h.processed_at IS NULL
            )
            DELETE FROM outbox_processed_marks p USING l WHERE p.message_id = l.message_id";
        // A report has no id: a number in its place gives the row the usual shape.
        mysql: "
            SELECT CAST(0 AS SIGNED), message_id FROM outbox_processed_marks FORCE INDEX (outbox_processed_marks_age)
            WHERE marked_at < TIMESTAMPADD(MICROSECOND, -?1, UTC_TIMESTAMP(6)) ORDER BY marked_at LIMIT ?2 FOR UPDATE SKIP LOCKED", "
            UPDATE {ids}
            STRAIGHT_JOIN outbox_processed_marks p FORCE INDEX (PRIMARY) ON p.message_id = UNHEX(k.message_id)
            STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = p.message_id
            SET h.processed_at = p.marked_at WHERE h.processed_at IS NULL",
            "DELETE p FROM {ids} STRAIGHT_JOIN outbox_processed_marks p FORCE INDEX (PRIMARY) ON p.message_id = UNHEX(k.message_id)";
        sqlite: "
            UPDATE outbox_history SET processed_at = (
              SELECT p.marked_at FROM outbox_processed_marks p WHERE p.message_id = outbox_history.message_id
            ) WHERE processed_at IS NULL AND message_id IN ({old_processed_reports})", "
            DELETE FROM outbox_processed_marks WHERE message_id IN ({old_processed_reports}) AND NOT EXISTS (
              SELECT 1 FROM outbox_history h WHERE h.message_id = outbox_processed_marks.message_id AND h.processed_at IS NULL
            )";
    }
}
