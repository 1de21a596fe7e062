use super::live::{DELETE, LOCK, SETTLE_DEAD, SETTLE_DEAD_SQLITE, SETTLE_SQLITE};
use crate::store::sql::text::statements;

statements! {
    /// Settles into the history, of a batch with the days to keep and whether each row awaits processing.
    HistorySql

    @keep_live {
        mysql: "{keep} STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
            ON DUPLICATE KEY UPDATE message_id = outbox_history.message_id";
        // WHERE, because without one ON CONFLICT would be parsed as the ON of the join.
        sqlite: "{keep} CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
            WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) ON CONFLICT (message_id) DO NOTHING";
    }

    // The settle applies a report that came before its message. It does not see one committed while it runs; that one stays, and
    // every reader also looks there.
    @keep {
        postgres: "marked (marked_id, marked_at) AS (
              DELETE FROM outbox_processed_marks p USING gone g WHERE g.awaits = 1 AND p.message_id = g.message_id
              RETURNING p.message_id, p.marked_at
            ), kept AS (
              INSERT INTO outbox_history ({row}, sent_at, falls_on, awaits_processing, processed_at)
              SELECT {row}, clock_timestamp(), (clock_timestamp() AT TIME ZONE 'UTC')::date + days + 1, awaits = 1, marked_at
              FROM gone LEFT JOIN marked ON marked_id = message_id ON CONFLICT DO NOTHING
            )
            SELECT id, message_id FROM gone";
        // A report that came before its message is read here and removed by the next statement.
        mysql: "
            INSERT INTO outbox_history (id, message_id, topic, lane, `key`, kind, headers, payload, deliver_at, epoch, attempts, failures,
              errors, created_at, sent_at, falls_on, awaits_processing, processed_at)
            SELECT m.id, m.message_id, m.topic, m.lane, m.`key`, m.kind, m.headers, m.payload, m.deliver_at, m.epoch, m.attempts,
              m.failures, m.errors, m.created_at, UTC_TIMESTAMP(6), UTC_DATE() + INTERVAL (k.days + 1) DAY, k.awaits,
              IF(k.awaits, (SELECT p.marked_at FROM outbox_processed_marks p WHERE p.message_id = m.message_id), NULL)
            FROM JSON_TABLE(?1, '$[*]' COLUMNS (
              id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]', days int PATH '$[2]', awaits int PATH '$[3]'
            )) k";
        sqlite: "
            INSERT INTO outbox_history (id, message_id, topic, lane, key, kind, headers, payload, deliver_at, epoch, attempts, failures,
              errors, created_at, sent_at, falls_on, awaits_processing, processed_at)
            SELECT m.id, m.message_id, m.topic, m.lane, m.key, m.kind, m.headers, m.payload, m.deliver_at, m.epoch, m.attempts, m.failures,
              m.errors, m.created_at, {now}, {today} + json_extract(k.value, '$[1]') + 1, json_extract(k.value, '$[2]'),
              CASE json_extract(k.value, '$[2]') WHEN 1 THEN (
                SELECT p.marked_at FROM outbox_processed_marks p WHERE p.message_id = m.message_id
              ) END
            FROM json_each(?1) k";
    }

    @row {
        postgres: "id, message_id, topic, lane, key, kind, headers, payload, deliver_at, epoch, attempts, failures, errors, created_at";
    }

    settle_into_history {
        postgres: SETTLE.replace("{locking}", "SKIP LOCKED");
        mysql: LOCK.replace("{locking}", "SKIP LOCKED"), "{keep_live}", DELETE;
        sqlite: "{keep_live}", SETTLE_SQLITE;
    }

    settle_into_history_waiting {
        postgres: SETTLE.replace("{locking}", "");
        mysql: LOCK.replace("{locking}", ""), "{keep_live}", DELETE;
        sqlite: "{keep_live}", SETTLE_SQLITE;
    }

    /// At the close of a claim, whose rows are locked or leased.
    settle_claimed {
        postgres: "
            WITH gone AS (
              DELETE FROM outbox_messages m WHERE ctid = ANY($1) AND message_id = ANY($2) RETURNING m.*, $3::int AS days, $4::int AS awaits
            ), {keep}";
        mysql: "{keep_live}";
        sqlite: "{keep_live}";
    }

    settle_dead_letters_into_history {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT d.message_id, k.days, k.awaits
              FROM outbox_dead_letters d JOIN unnest($1, $2, $3, $4) AS k(id, message_id, days, awaits)
                ON d.message_id = k.message_id AND d.id = k.id
              ORDER BY d.message_id FOR UPDATE OF d
            ), gone AS (
              DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id RETURNING d.*, l.days, l.awaits
            ), {keep}";
        mysql: "
            SELECT CAST(d.id AS SIGNED), d.message_id
            FROM JSON_TABLE(?1, '$[*]' COLUMNS (
              id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]'
            )) k STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) AND d.id = k.id
            FOR UPDATE",
            "{keep} STRAIGHT_JOIN outbox_dead_letters m FORCE INDEX (PRIMARY) ON m.message_id = UNHEX(k.message_id)
            ON DUPLICATE KEY UPDATE message_id = outbox_history.message_id",
            SETTLE_DEAD;
        sqlite:
            "{keep} CROSS JOIN outbox_dead_letters m ON m.message_id = substr(?2, 16 * k.key + 1, 16)
            WHERE m.id = json_extract(k.value, '$[0]') ON CONFLICT (message_id) DO NOTHING",
            format!("{SETTLE_DEAD_SQLITE} RETURNING id, message_id");
    }

    // On MySQL only the reports that were read: one committed since then stays, and every reader also looks there. On SQLite nobody
    // else can write between the two statements.
    /// Removes the reports that a settle has applied, if the settle itself does not.
    remove_applied_reports {
        mysql: "
            DELETE p FROM {ids}
            STRAIGHT_JOIN outbox_processed_marks p FORCE INDEX (PRIMARY) ON p.message_id = UNHEX(k.message_id)
            STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = p.message_id
            WHERE h.processed_at IS NOT NULL";
        sqlite: "
            DELETE FROM outbox_processed_marks WHERE message_id IN ({ids}) AND message_id IN (
              SELECT message_id FROM outbox_history WHERE message_id IN ({ids}) AND processed_at IS NOT NULL
            )";
    }
}

// Like the settle that deletes.
const SETTLE: &str = "
    WITH l AS MATERIALIZED (
      SELECT m.id, k.days, k.awaits
      FROM outbox_messages m JOIN unnest($1, $2, $3, $4) AS k(id, message_id, days, awaits)
        ON m.id = k.id AND m.message_id = k.message_id
      ORDER BY m.id FOR UPDATE OF m {locking}
    ), gone AS (
      DELETE FROM outbox_messages m USING l
      WHERE m.id = l.id AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
      RETURNING m.*, l.days, l.awaits
    ), {keep}";
