use crate::store::sql::scans::{SCAN_COUNTS, union_of_scans};
use crate::store::sql::text::{StatementSql, statements};

statements! {
    /// What is due, and the backlog.
    DueSql

    // Bounded on both sides, because the index may still hold entries of rows that are gone, wherever they were due: below the
    // watermark, and ahead, where leases of half a minute or cancelled messages were.
    /// When the earliest row of each topic is due, in a database without the table of pauses.
    poll {
        postgres: POLL.replace("{is_paused}", "false");
        mysql: poll(0, "0"), poll(1, "0"), poll(2, "0"), poll(3, "0");
        sqlite: POLL_SQLITE.replace("{is_paused}", "0");
    }

    /// The same, and which of them are paused.
    poll_with_pauses {
        postgres: POLL.replace("{is_paused}", IS_PAUSED);
        mysql: poll(0, IS_PAUSED_MYSQL), poll(1, IS_PAUSED_MYSQL), poll(2, IS_PAUSED_MYSQL), poll(3, IS_PAUSED_MYSQL);
        sqlite: POLL_SQLITE.replace("{is_paused}", IS_PAUSED);
    }

    /// Nothing if there is no backlog.
    any {
        postgres: "
            (SELECT topic FROM outbox_messages ORDER BY topic LIMIT 1) UNION ALL (SELECT topic FROM outbox_dead_letters ORDER BY topic LIMIT 1)";
    }

    // The recursions jump from one topic to the next in the index: DISTINCT would read all of it. ORDER BY keeps each count on its
    // index, and so within its LIMIT.
    /// The backlog of each topic; on MySQL of one topic, and the next topics.
    backlog {
        postgres: "
            WITH RECURSIVE live AS (
              (SELECT topic FROM outbox_messages ORDER BY topic LIMIT 1)
              UNION ALL
              SELECT (SELECT m.topic FROM outbox_messages m WHERE m.topic > l.topic ORDER BY m.topic LIMIT 1)
              FROM live l WHERE l.topic IS NOT NULL
            ), dead AS (
              (SELECT topic FROM outbox_dead_letters ORDER BY topic LIMIT 1)
              UNION ALL
              SELECT (SELECT m.topic FROM outbox_dead_letters m WHERE m.topic > d.topic ORDER BY m.topic LIMIT 1)
              FROM dead d WHERE d.topic IS NOT NULL
            )
            SELECT t.topic, least(m.live + o.ordered, $1), m.due, m.first_due_at, statement_timestamp(), d.dead
            FROM (SELECT topic FROM live UNION SELECT topic FROM dead) t
            CROSS JOIN LATERAL (
              SELECT count(*) AS live, count(*) FILTER (WHERE due_at <= statement_timestamp()) AS due, min(due_at) AS first_due_at
              FROM (SELECT due_at FROM outbox_messages WHERE topic = t.topic AND lane = -1 ORDER BY due_at LIMIT $1) r
            ) m CROSS JOIN LATERAL (
              SELECT count(*) AS ordered FROM (
                SELECT 1 FROM outbox_messages WHERE topic = t.topic AND lane >= 0 ORDER BY lane LIMIT $1
              ) r
            ) o CROSS JOIN LATERAL (
              SELECT count(*) AS dead FROM (
                SELECT dead_at FROM outbox_dead_letters WHERE topic = t.topic ORDER BY dead_at LIMIT $1
              ) r
            ) d WHERE t.topic IS NOT NULL";
        mysql: "
            SELECT CAST(LEAST(m.live + o.ordered, ?2) AS SIGNED), m.due, m.overdue_by, d.dead,
              (SELECT MIN(topic) FROM outbox_messages WHERE topic > ?1), (SELECT MIN(topic) FROM outbox_dead_letters WHERE topic > ?1)
            FROM (
              SELECT COUNT(*) AS live, CAST(COALESCE(SUM(due_at <= UTC_TIMESTAMP(6)), 0) AS SIGNED) AS due,
                TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6)) AS overdue_by
              FROM (
                SELECT due_at FROM outbox_messages FORCE INDEX (outbox_messages_due)
                WHERE topic = ?1 AND lane = -1 ORDER BY due_at LIMIT ?2
              ) r
            ) m CROSS JOIN (
              SELECT COUNT(*) AS ordered FROM (
                SELECT 1 FROM outbox_messages FORCE INDEX (outbox_messages_due) WHERE topic = ?1 AND lane >= 0 LIMIT ?2
              ) r
            ) o CROSS JOIN (
              SELECT COUNT(*) AS dead FROM (
                SELECT 1 FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic) WHERE topic = ?1 LIMIT ?2
              ) r
            ) d";
        sqlite: "
            WITH RECURSIVE live(topic) AS (
              SELECT min(topic) FROM outbox_messages
              UNION ALL
              SELECT (SELECT min(m.topic) FROM outbox_messages m WHERE m.topic > l.topic) FROM live l WHERE l.topic IS NOT NULL
            ), dead(topic) AS (
              SELECT min(topic) FROM outbox_dead_letters
              UNION ALL
              SELECT (SELECT min(m.topic) FROM outbox_dead_letters m WHERE m.topic > d.topic) FROM dead d WHERE d.topic IS NOT NULL
            )
            SELECT t.topic,
              (SELECT count(*) FROM (SELECT 1 FROM outbox_messages m WHERE m.topic = t.topic AND m.lane >= -1 LIMIT ?1)),
              (SELECT count(*) FROM (
                SELECT 1 FROM outbox_messages m WHERE m.topic = t.topic AND m.lane = -1 AND m.due_at <= {now} LIMIT ?1
              )),
              {now} - (SELECT due_at FROM outbox_messages WHERE topic = t.topic AND lane = -1 ORDER BY due_at LIMIT 1),
              (SELECT count(*) FROM (SELECT 1 FROM outbox_dead_letters m WHERE m.topic = t.topic LIMIT ?1))
            FROM (SELECT topic FROM live UNION SELECT topic FROM dead) t WHERE t.topic IS NOT NULL";
    }
}

impl DueSql {
    pub(crate) fn poll_sql(&self, has_pauses: bool) -> &StatementSql {
        if has_pauses { &self.poll_with_pauses } else { &self.poll }
    }
}

const IS_PAUSED: &str = "EXISTS (SELECT 1 FROM outbox_paused_topics p WHERE p.topic = t.topic)";

const IS_PAUSED_MYSQL: &str = "EXISTS (SELECT 1 FROM outbox_paused_topics WHERE topic = ?)";

// $2 is where each topic begins, or NULL if $3 says how many ms ago.
const POLL: &str = "
    SELECT t.topic, m.due_at, statement_timestamp(),
      CASE WHEN m.due_at IS NULL OR m.due_at > statement_timestamp() THEN m.due_at ELSE (
        SELECT due_at FROM outbox_messages
        WHERE topic = t.topic AND lane = -1 AND due_at > statement_timestamp()
          AND due_at <= statement_timestamp() + $4 * interval '1 millisecond'
        ORDER BY due_at LIMIT 1
      ) END, {is_paused}, coalesce(t.first, statement_timestamp() - t.past * interval '1 millisecond')
    FROM unnest($1, $2, $3) AS t(topic, first, past) LEFT JOIN LATERAL (
      SELECT due_at FROM outbox_messages
      WHERE topic = t.topic AND lane = -1
        AND due_at >= coalesce(t.first, statement_timestamp() - t.past * interval '1 millisecond')
        AND due_at <= statement_timestamp() + $4 * interval '1 millisecond'
      ORDER BY due_at LIMIT 1
    ) m ON true";

// One SELECT per topic: if the bounds of a range come from another row, these servers read the range from its beginning, over
// entries that the purge has not removed. It begins at a time since 1970 or a time before now, whichever is later, and ends a time
// after now; all in microseconds.
const POLL_MYSQL: &str = "
    SELECT {scan}, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), (
      SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', due_at), -9223372036854775807)
      FROM outbox_messages FORCE INDEX (outbox_messages_due)
      WHERE topic = ? AND lane = -1 AND due_at >= {from}
        AND due_at >= COALESCE(TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)), FROM_DAYS(0))
        AND due_at <= TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6))
      ORDER BY due_at LIMIT 1
    ), (
      SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', due_at)
      FROM outbox_messages FORCE INDEX (outbox_messages_due)
      WHERE topic = ? AND lane = -1 AND due_at > UTC_TIMESTAMP(6) AND due_at <= TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6))
      ORDER BY due_at LIMIT 1
    ), CAST({is_paused} AS SIGNED)";

/// The text for a number of topics.
fn poll(size: usize, is_paused: &str) -> String {
    union_of_scans(&POLL_MYSQL.replace("{is_paused}", is_paused), SCAN_COUNTS[size])
}

// ?1 holds [[topic, begins after, or how long ago], ..]: one of the last two is set.
const POLL_SQLITE: &str = "
    SELECT t.topic, (
      SELECT due_at FROM outbox_messages
      WHERE topic = t.topic AND lane = -1 AND due_at >= t.first AND due_at <= {now} + ?2 ORDER BY due_at LIMIT 1
    ), {now}, (
      SELECT due_at FROM outbox_messages
      WHERE topic = t.topic AND lane = -1 AND due_at > {now} AND due_at <= {now} + ?2 ORDER BY due_at LIMIT 1
    ), {is_paused}, t.first
    FROM (
      SELECT json_extract(value, '$[0]') AS topic, coalesce(json_extract(value, '$[1]'), {now} - json_extract(value, '$[2]')) AS first
      FROM json_each(?1)
    ) t";
