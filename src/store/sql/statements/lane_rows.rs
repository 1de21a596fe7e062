use super::live::{DEAD_LETTER, DELETE};
use crate::store::sql::scans::{SCAN_COUNTS, union_of_scans};
use crate::store::sql::text::statements;

statements! {
    /// Rows in lanes.
    LaneRowSql

    // The lanes that a node owns now, locked so that nobody takes them before the write is done. On SQLite, the rows of a batch in those
    // lanes: ?1 holds [[id, epoch, fence, ..], ..] and ?2 the message ids, in the same order; ?3 is the topic and ?4 the lanes' owner.
    @owned {
        postgres: "
            SELECT lane, fence FROM outbox_lanes WHERE topic = $1 AND owner = $2 AND expires_at > statement_timestamp()
            ORDER BY lane FOR SHARE";
        sqlite: "
            m.id = json_extract(k.value, '$[0]') AND m.message_id = substr(?2, 16 * k.key + 1, 16)
            AND m.epoch = json_extract(k.value, '$[1]') AND EXISTS (
              SELECT 1 FROM outbox_lanes l WHERE l.topic = ?3 AND l.lane = m.lane AND l.owner = ?4
                AND l.fence = json_extract(k.value, '$[2]') AND l.expires_at > {now}
            )";
    }

    // PostgreSQL: a requeued row has a new id, so it counts as young whatever its created_at. The last two columns are the
    // transactions that this statement's snapshot saw ended, and the next transaction number; the latter is read once, not per row.
    // The snapshot's own upper end does not do: running transactions above the last ended one are beyond it. A transaction gets its
    // number at its first write: for one that enqueues, before or in the statement that draws an id.
    /// The rows of lanes after an id, without payload and headers.
    entries {
        postgres: "
            SELECT k.scan, m.id, m.message_id, m.key, coalesce(octet_length(m.payload), 0),
              CASE WHEN m.epoch = 0 THEN m.created_at ELSE clock_timestamp() END, clock_timestamp(),
              (SELECT txid_snapshot_xmin(txid_current_snapshot())),
              (SELECT s.upper + age((s.upper % 4294967296)::text::xid)
               FROM (SELECT txid_snapshot_xmax(txid_current_snapshot()) AS upper OFFSET 0) s)
            FROM unnest($2, $3, $4) WITH ORDINALITY AS k(lane, after, rows_max, scan) CROSS JOIN LATERAL (
              SELECT id, message_id, key, payload, created_at, epoch FROM outbox_messages
              WHERE topic = $1 AND lane = k.lane AND due_at = 'epoch' AND id > k.after ORDER BY id LIMIT k.rows_max
            ) m ORDER BY k.scan, m.id";
        mysql: entries(SCAN_MYSQL, 0), entries(SCAN_MYSQL, 1), entries(SCAN_MYSQL, 2), entries(SCAN_MYSQL, 3);
        sqlite: entries(SCAN_SQLITE, 0), entries(SCAN_SQLITE, 1), entries(SCAN_SQLITE, 2), entries(SCAN_SQLITE, 3);
    }

    /// Those that still exist.
    rows {
        postgres: "
            SELECT id, message_id, nullif(epoch, 0), nullif(failures, 0), nullif(attempts, 0), nullif({is_suspect}, false), key, kind,
              nullif(headers, '[]'), payload, created_at, deliver_at
            FROM outbox_messages WHERE id = ANY($1) AND lane >= 0 ORDER BY id";
        mysql: "
            SELECT CAST(m.id AS SIGNED), m.message_id, m.epoch, m.failures, m.attempts, {is_suspect}, m.`key`, m.kind, m.headers, m.payload,
              TIMESTAMPDIFF(MICROSECOND, {epoch}, m.created_at), TIMESTAMPDIFF(MICROSECOND, {epoch}, m.deliver_at)
            FROM {rows} STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id WHERE m.lane >= 0";
        sqlite: "
            SELECT m.id, m.message_id, m.epoch, m.failures, m.attempts, {is_suspect}, m.key, m.kind, m.headers, m.payload, m.created_at,
              m.deliver_at
            FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = k.value WHERE m.lane >= 0";
    }

    // due_at stays: the lane's owner does the waiting, and a row moved in the index would let a later one of its key overtake it.
    /// Records failures. After epoch and fence each row has: whether an attempt is spent, the class and the error.
    fail_in_lanes {
        postgres: "
            WITH owned AS MATERIALIZED ({owned}
            ), l AS MATERIALIZED (
              SELECT m.id, k.spends, k.class, k.error
              FROM unnest($3, $4, $5, $6, $7, $8, $9) AS k(id, message_id, epoch, fence, spends, class, error)
              JOIN outbox_messages m ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
              JOIN owned o ON o.lane = m.lane AND o.fence = k.fence
              ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
            )
            UPDATE outbox_messages m SET
              {failure}
            FROM l WHERE m.id = l.id RETURNING m.id, m.message_id";
        mysql: SHARE_LANES, LOCK_OWNED, "
            UPDATE JSON_TABLE(?1, '$[*]' COLUMNS (
              id bigint unsigned PATH '$[0]', spends int PATH '$[4]',
              class varchar(64) CHARACTER SET utf8mb4 PATH '$[5]', error varchar(1024) CHARACTER SET utf8mb4 PATH '$[6]'
            )) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
            SET {failure}";
        sqlite: "
            UPDATE outbox_messages AS m SET
              {failure}
            FROM json_each(?1) k WHERE {owned} RETURNING id, message_id";
    }

    /// Moves rows to the dead letters. After epoch and fence each row has the reason.
    dead_letter_from_lanes {
        postgres: "
            WITH owned AS MATERIALIZED ({owned}
            ), l AS MATERIALIZED (
              SELECT m.id, k.reason
              FROM unnest($3, $4, $5, $6, $7) AS k(id, message_id, epoch, fence, reason)
              JOIN outbox_messages m ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
              JOIN owned o ON o.lane = m.lane AND o.fence = k.fence
              ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
            ), {dead_letter}";
        mysql: SHARE_LANES, LOCK_OWNED, DEAD_LETTER.replace("{reason}", "4"), DELETE;
        // CROSS JOIN makes SQLite read the batch first, which is short.
        sqlite: "
            {dead_letter}, json_extract(k.value, '$[3]')
            FROM json_each(?1) k CROSS JOIN outbox_messages m WHERE {owned} ON CONFLICT (message_id) DO NOTHING", "
            DELETE FROM outbox_messages WHERE id IN (
              SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m WHERE {owned}
            ) RETURNING id, message_id";
    }
}

/// The text for a number of lanes.
fn entries(one: &str, size: usize) -> String {
    union_of_scans(one, SCAN_COUNTS[size])
}

// One SELECT per lane: MariaDB and SQLite have no LATERAL, with which one statement could limit each lane.
const SCAN_MYSQL: &str = "
    SELECT * FROM (
      SELECT {scan} AS scan, CAST(id AS SIGNED), message_id, `key`, COALESCE(OCTET_LENGTH(payload), 0),
        CASE WHEN epoch = 0 THEN TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) ELSE 0 END
      FROM outbox_messages FORCE INDEX (outbox_messages_due)
      WHERE topic = ? AND lane = ? AND due_at = '1970-01-01 00:00:00' AND id > ? ORDER BY id LIMIT ?
    ) s{scan}";

const SCAN_SQLITE: &str = "
    SELECT * FROM (
      SELECT {scan} AS scan, id, message_id, key, coalesce(length(payload), 0) FROM outbox_messages
      WHERE topic = ? AND lane = ? AND due_at = 0 AND id > ? ORDER BY id LIMIT ?
    )";

// Nobody can take a lane before the write is done. This waits only for a lane balancer that is at work. Skipping lanes that are
// locked would leave a failure unrecorded.
const SHARE_LANES: &str = "
    SELECT CAST(lane AS SIGNED), fence FROM outbox_lanes FORCE INDEX (PRIMARY)
    WHERE topic = ?1 AND owner = UNHEX(?2) AND expires_at > UTC_TIMESTAMP(6) ORDER BY lane LOCK IN SHARE MODE";

const LOCK_OWNED: &str = "
    SELECT CAST(m.id AS SIGNED), m.message_id
    FROM JSON_TABLE(?1, '$[*]' COLUMNS (
      id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]', epoch int PATH '$[2]',
      fence bigint PATH '$[3]'
    )) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY)
      ON m.id = k.id AND m.message_id = UNHEX(k.message_id) AND m.epoch = k.epoch
    STRAIGHT_JOIN JSON_TABLE(?2, '$[*]' COLUMNS (lane int PATH '$[0]', fence bigint PATH '$[1]')) l
      ON l.lane = m.lane AND l.fence = k.fence
    WHERE m.topic = ?3 FOR UPDATE SKIP LOCKED";
