use crate::store::sql::text::statements;

statements! {
    /// Live messages, outside of claims.
    LiveSql

    // Rows of a batch under an epoch.
    @held {
        postgres: "
            SELECT m.id FROM outbox_messages m JOIN unnest($1, $2, $3) AS k(id, message_id, epoch)
              ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
            ORDER BY m.id FOR UPDATE OF m SKIP LOCKED";
        // CROSS JOIN makes SQLite read the batch first, which is short.
        sqlite: "
            SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
            WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) AND m.epoch = json_extract(k.value, '$[1]')";
    }

    /// Handed-over rows that exist, were never claimed, and are not delayed.
    confirm {
        // Values that are zero, false or empty in nearly every row are returned as NULL.
        postgres: "
            SELECT id, message_id, NULL::int, nullif(failures, 0), nullif(attempts, 0), NULL::boolean, key, kind, nullif(headers, '[]'), payload,
              created_at, NULL::timestamptz, topic, CASE WHEN isfinite(due_at) THEN due_at - clock_timestamp() END
            FROM outbox_messages WHERE id = ANY($1) AND epoch = 0 AND deliver_at IS NULL";
        // By message id: MySQL's INSERT does not return the row id.
        mysql: "
            SELECT CAST(m.id AS SIGNED), m.message_id, m.epoch, m.failures, m.attempts, 0, m.`key`, m.kind, m.headers, m.payload,
              TIMESTAMPDIFF(MICROSECOND, {epoch}, m.created_at), NULL, m.topic, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), m.due_at)
            FROM {ids} STRAIGHT_JOIN outbox_messages m ON m.message_id = UNHEX(k.message_id)
            WHERE m.epoch = 0 AND m.deliver_at IS NULL";
        sqlite: "
            SELECT m.id, m.message_id, m.epoch, m.failures, m.attempts, 0, m.key, m.kind, m.headers, m.payload, m.created_at, NULL, m.topic,
              m.due_at - {now}
            FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = k.value WHERE m.epoch = 0 AND m.deliver_at IS NULL";
    }

    remaining {
        postgres: "SELECT id, message_id FROM outbox_messages WHERE id = ANY($1)";
        mysql: "
            SELECT CAST(m.id AS SIGNED), m.message_id
            FROM {ids} STRAIGHT_JOIN outbox_messages m ON m.message_id = UNHEX(k.message_id)";
        sqlite: "SELECT id, message_id FROM outbox_messages WHERE id IN (SELECT value FROM json_each(?1))";
    }

    /// Removes delivered rows, and skips those that others have locked.
    settle {
        postgres: SETTLE.replace("{locking}", "SKIP LOCKED");
        mysql: LOCK.replace("{locking}", "SKIP LOCKED"), DELETE;
        sqlite: SETTLE_SQLITE;
    }

    /// The same, but waits for locked rows. SQLite has no row locks: every writer waits for the one lock of the database.
    settle_waiting {
        postgres: SETTLE.replace("{locking}", "");
        mysql: LOCK.replace("{locking}", ""), DELETE;
        sqlite: SETTLE_SQLITE;
    }

    // By row id too: a message that was requeued has another one, and that dead letter belongs to the later copy.
    settle_dead_letters {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT d.message_id FROM outbox_dead_letters d
              JOIN unnest($1, $2) AS k(id, message_id) ON d.message_id = k.message_id AND d.id = k.id
              ORDER BY d.message_id FOR UPDATE OF d
            )
            DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id";
        mysql: SETTLE_DEAD;
        sqlite: SETTLE_DEAD_SQLITE;
    }

    /// Extends the lease of held rows.
    extend {
        postgres: "
            WITH l AS MATERIALIZED ({held})
            UPDATE outbox_messages m SET due_at = clock_timestamp() + $4 * interval '1 millisecond'
            FROM l WHERE m.id = l.id RETURNING m.id, m.message_id";
        mysql: LOCK_HELD, "
            UPDATE {rows} STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
            SET m.due_at = TIMESTAMPADD(MICROSECOND, ?2, UTC_TIMESTAMP(6))";
        sqlite: "UPDATE outbox_messages SET due_at = {now} + ?3 WHERE id IN ({held}) RETURNING id, message_id";
    }

    /// Records failures of held rows. After the epoch each row has: the wait, whether an attempt is spent, the class and the error.
    fail {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT m.id, k.wait_ms, k.spends, k.class, k.error
              FROM outbox_messages m
              JOIN unnest($1, $2, $3, $4, $5, $6, $7) AS k(id, message_id, epoch, wait_ms, spends, class, error)
                ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
              ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
            )
            UPDATE outbox_messages m SET
              due_at = clock_timestamp() + l.wait_ms * interval '1 millisecond',
              {failure}
            FROM l WHERE m.id = l.id RETURNING m.id, m.message_id";
        // Texts name their character set: otherwise a column of JSON_TABLE has the database's, and MariaDB then breaks the JSON.
        mysql: LOCK_HELD, "
            UPDATE JSON_TABLE(?1, '$[*]' COLUMNS (
              id bigint unsigned PATH '$[0]', wait_micros bigint PATH '$[3]', spends int PATH '$[4]',
              class varchar(64) CHARACTER SET utf8mb4 PATH '$[5]', error varchar(1024) CHARACTER SET utf8mb4 PATH '$[6]'
            )) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
            SET m.due_at = TIMESTAMPADD(MICROSECOND, k.wait_micros, UTC_TIMESTAMP(6)),
              {failure}";
        sqlite: "
            UPDATE outbox_messages AS m SET
              due_at = {now} + json_extract(k.value, '$[2]'),
              {failure}
            FROM json_each(?1) k
            WHERE m.id = json_extract(k.value, '$[0]') AND m.message_id = substr(?2, 16 * k.key + 1, 16)
              AND m.epoch = json_extract(k.value, '$[1]')
            RETURNING id, message_id";
    }

    // A message may be a dead letter already, because an operator copied one back. That dead letter stays, the row is removed all
    // the same, and its batch does not fail.
    /// Moves held rows to the dead letters. After the epoch each row has the reason.
    dead_letter {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT m.id, k.reason FROM outbox_messages m JOIN unnest($1, $2, $3, $4) AS k(id, message_id, epoch, reason)
                ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
              ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
            ), {dead_letter}";
        mysql: LOCK_HELD, DEAD_LETTER.replace("{reason}", "3"), DELETE;
        // WHERE, because without one ON CONFLICT would be parsed as the ON of the join.
        sqlite: "
            {dead_letter}, json_extract(k.value, '$[2]')
            FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
            WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) AND m.epoch = json_extract(k.value, '$[1]')
            ON CONFLICT (message_id) DO NOTHING",
            "DELETE FROM outbox_messages WHERE id IN ({held}) RETURNING id, message_id";
    }
}

// Does not wait for the disk: if a crash of the database undoes a settle, rows are sent twice, and nothing else happens. A settle
// of 10 rows takes 0.7 ms instead of 6 to 7.5, on a virtual disk with fsync.
const SETTLE: &str = "
    WITH l AS MATERIALIZED (
      SELECT m.id FROM outbox_messages m JOIN unnest($1, $2) AS k(id, message_id) ON m.id = k.id AND m.message_id = k.message_id
      ORDER BY m.id FOR UPDATE OF m {locking}
    )
    DELETE FROM outbox_messages m USING l
    WHERE m.id = l.id AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off' RETURNING m.id, m.message_id";

pub(super) const LOCK: &str = "
    SELECT CAST(m.id AS SIGNED), m.message_id
    FROM JSON_TABLE(?1, '$[*]' COLUMNS (
      id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]'
    )) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id AND m.message_id = UNHEX(k.message_id)
    FOR UPDATE {locking}";

const LOCK_HELD: &str = "
    SELECT CAST(m.id AS SIGNED), m.message_id
    FROM JSON_TABLE(?1, '$[*]' COLUMNS (
      id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]', epoch int PATH '$[2]'
    )) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY)
      ON m.id = k.id AND m.message_id = UNHEX(k.message_id) AND m.epoch = k.epoch
    FOR UPDATE SKIP LOCKED";

pub(super) const DELETE: &str =
    "DELETE m FROM {rows} STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id";

pub(super) const SETTLE_DEAD: &str = "
    DELETE d FROM JSON_TABLE(?1, '$[*]' COLUMNS (
      id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]'
    )) k STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) AND d.id = k.id";

pub(super) const DEAD_LETTER: &str = "
    INSERT INTO outbox_dead_letters (id, message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch,
      attempts, failures, errors, created_at, reason)
    SELECT m.id, m.message_id, m.topic, m.lane, m.`key`, m.kind, m.headers, m.payload, m.due_at, m.deliver_at, m.epoch,
      m.attempts, m.failures, m.errors, m.created_at, k.reason
    FROM JSON_TABLE(?1, '$[*]' COLUMNS (
      id bigint unsigned PATH '$[0]', reason varchar(1024) CHARACTER SET utf8mb4 PATH '$[{reason}]'
    )) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
    ON DUPLICATE KEY UPDATE message_id = outbox_dead_letters.message_id";

pub(super) const SETTLE_SQLITE: &str = "
    DELETE FROM outbox_messages WHERE id IN (
      SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
      WHERE m.message_id = substr(?2, 16 * k.key + 1, 16)
    ) RETURNING id, message_id";

pub(super) const SETTLE_DEAD_SQLITE: &str = "
    DELETE FROM outbox_dead_letters WHERE message_id IN (
      SELECT m.message_id FROM json_each(?1) k CROSS JOIN outbox_dead_letters m ON m.message_id = substr(?2, 16 * k.key + 1, 16)
      WHERE m.id = json_extract(k.value, '$[0]')
    )";
