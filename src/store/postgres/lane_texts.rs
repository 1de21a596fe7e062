use std::sync::Arc;

use super::texts::tolerant;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements of ordered topics, under the names of one outbox.
#[derive(Debug)]
pub(super) struct LaneTexts {
    pub(super) count: Arc<str>,
    pub(super) first_from: Arc<str>,
    pub(super) create: Arc<str>,
    pub(super) look: Arc<str>,
    pub(super) lock: Arc<str>,
    pub(super) prune: Arc<str>,
    pub(super) join: Arc<str>,
    pub(super) leave: Arc<str>,
    pub(super) write: Arc<str>,
    pub(super) entries: Arc<str>,
    pub(super) rows: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) bury: Arc<str>,
}

impl LaneTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(&tolerant(&sql.replace("{owned}", OWNED)), names, IndexNaming::ByTable).into();
        Self {
            count: text(COUNT),
            first_from: text(FIRST_FROM),
            create: text(CREATE),
            look: text(LOOK),
            lock: text(LOCK),
            prune: text(PRUNE),
            join: text(JOIN),
            leave: text(LEAVE),
            write: text(WRITE),
            entries: text(ENTRIES),
            rows: text(ROWS),
            fail: text(FAIL),
            bury: text(BURY),
        }
    }
}

const COUNT: &str = "SELECT count(*) FROM outbox_lanes WHERE topic = $1";

// Through the index: its lanes from 0 on are all of the topic's ordered rows.
const FIRST_FROM: &str =
    "SELECT lane::bigint FROM outbox_messages WHERE topic = $1 AND lane >= $2 ORDER BY lane LIMIT 1";

// All of them or none: where two nodes make them at once, of different counts, the second finds the first one's.
const CREATE: &str = "
INSERT INTO outbox_lanes (topic, lane) SELECT $1, generate_series(0, $2 - 1)";

// One statement for both tables, because an idle relay asks this and little else.
const LOOK: &str = "
SELECT l.lane::int, l.owner, l.fence, (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint,
  (extract(epoch FROM l.quiet_until - clock_timestamp()) * 1000000)::bigint
FROM outbox_lanes l WHERE l.topic = $1
UNION ALL
SELECT -1, n.node, 0, 0, 0 FROM outbox_nodes n WHERE n.topic = $1 AND n.expires_at > clock_timestamp()";

// Whoever keeps lanes of a topic waits for whoever else does, so that shares are taken one after the other.
const LOCK: &str = "SELECT lane::int FROM outbox_lanes WHERE topic = $1 ORDER BY lane FOR UPDATE";

const PRUNE: &str = "DELETE FROM outbox_nodes WHERE topic = $1 AND expires_at <= clock_timestamp()";

const JOIN: &str = "
INSERT INTO outbox_nodes (topic, node, expires_at) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (topic, node) DO UPDATE SET expires_at = EXCLUDED.expires_at";

const LEAVE: &str = "DELETE FROM outbox_nodes WHERE topic = $1 AND node = $2";

const WRITE: &str = "
UPDATE outbox_lanes l SET fence = k.fence,
  owner = CASE WHEN k.change = 3 THEN NULL ELSE $2 END,
  expires_at = CASE WHEN k.change = 3 THEN clock_timestamp() ELSE clock_timestamp() + $6 * interval '1 millisecond' END,
  quiet_until = CASE WHEN k.change = 2 THEN clock_timestamp() + $7 * interval '1 millisecond' ELSE l.quiet_until END
FROM unnest($3, $4, $5) AS k(lane, fence, change) WHERE l.topic = $1 AND l.lane = k.lane";

// The age of one that was sent back is not that of its id, which is new: it counts as young.
// Behind it: which transactions the snapshot of this very statement saw ended, and which number the next one gets, asked for once
// and not for each row. The snapshot's own upper end tells that not: those that run above the last one that ended are beyond it.
// A number is given when a transaction first writes, which for one that enqueues is before it draws an id or in that statement.
const ENTRIES: &str = "
SELECT k.scan, m.id, m.message_id, m.key, coalesce(octet_length(m.payload), 0),
  CASE WHEN m.epoch = 0 THEN m.created_at ELSE clock_timestamp() END, clock_timestamp(),
  (SELECT txid_snapshot_xmin(txid_current_snapshot())),
  (SELECT s.upper + age((s.upper % 4294967296)::text::xid)
   FROM (SELECT txid_snapshot_xmax(txid_current_snapshot()) AS upper OFFSET 0) s)
FROM unnest($2, $3, $4) WITH ORDINALITY AS k(lane, after, rows_max, scan) CROSS JOIN LATERAL (
  SELECT id, message_id, key, payload, created_at, epoch FROM outbox_messages
  WHERE topic = $1 AND lane = k.lane AND due_at = 'epoch' AND id > k.after ORDER BY id LIMIT k.rows_max
) m ORDER BY k.scan, m.id";

const ROWS: &str = "
SELECT id, message_id, nullif(epoch, 0), nullif(failures, 0), nullif(attempts, 0), nullif({is_suspect}, false), key, kind,
  nullif(headers, '[]'), payload, created_at, deliver_at
FROM outbox_messages WHERE id = ANY($1) AND lane >= 0 ORDER BY id";

/// The lanes that a node owns now. Locked, so that nobody takes them before the write is there.
const OWNED: &str = "
  SELECT lane, fence FROM outbox_lanes WHERE topic = $1 AND owner = $2 AND expires_at > statement_timestamp()
  ORDER BY lane FOR SHARE";

// due_at stays: the lane's owner does the waiting, and a row out of its place in the index
// would let a later one of its key pass.
const FAIL: &str = "
WITH owned AS MATERIALIZED ({owned}
), l AS MATERIALIZED (
  SELECT m.id, k.spends, k.class, k.error
  FROM unnest($3, $4, $5, $6, $7, $8, $9) AS k(id, message_id, epoch, fence, spends, class, error)
  JOIN outbox_messages m ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
  JOIN owned o ON o.lane = m.lane AND o.fence = k.fence
  ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
)
UPDATE outbox_messages m SET
  epoch = {next_epoch}, failures = least(m.failures, 2147483646) + 1, attempts = least(m.attempts, 2147483646) + l.spends,
  errors = {errors} || jsonb_build_object(
    'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), 'class', l.class, 'error', l.error)
FROM l WHERE m.id = l.id RETURNING m.id, m.message_id";

const BURY: &str = "
WITH owned AS MATERIALIZED ({owned}
), l AS MATERIALIZED (
  SELECT m.id, k.reason
  FROM unnest($3, $4, $5, $6, $7) AS k(id, message_id, epoch, fence, reason)
  JOIN outbox_messages m ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
  JOIN owned o ON o.lane = m.lane AND o.fence = k.fence
  ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
), gone AS (
  DELETE FROM outbox_messages m USING l WHERE m.id = l.id
  RETURNING m.id, m.message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, attempts, failures,
    errors, created_at, l.reason
), kept AS (
  INSERT INTO outbox_dead_letters (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch,
    attempts, failures, errors, created_at, reason)
  SELECT * FROM gone ON CONFLICT (message_id) DO NOTHING
)
SELECT id, message_id FROM gone";
