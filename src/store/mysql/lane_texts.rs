use std::sync::Arc;

use super::texts::tolerant;
use crate::naming::TableNames;
use crate::store::lanes::{SCAN_COUNTS, scan_text};
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
    /// For each of the scan counts.
    pub(super) entries: [Arc<str>; SCAN_COUNTS.len()],
    pub(super) rows: Arc<str>,
    pub(super) share_lanes: Arc<str>,
    pub(super) lock_owned: Arc<str>,
    pub(super) fail: Arc<str>,
}

impl LaneTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(&tolerant(sql), names, IndexNaming::ByTable).into();
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
            entries: SCAN_COUNTS.map(|count| text(&scan_text(SCAN, count))),
            rows: text(ROWS),
            share_lanes: text(SHARE_LANES),
            lock_owned: text(LOCK_OWNED),
            fail: text(FAIL),
        }
    }
}

const COUNT: &str = "SELECT COUNT(*) FROM outbox_lanes WHERE topic = ?";

// Through the index: its lanes from 0 on are all of the topic's ordered rows.
const FIRST_FROM: &str = "
SELECT CAST(lane AS SIGNED) FROM outbox_messages FORCE INDEX (outbox_messages_due)
WHERE topic = ? AND lane >= ? ORDER BY lane LIMIT 1";

// All of them or none: where two nodes make them at once, of different counts, the second finds the first one's.
const CREATE: &str = "
INSERT INTO outbox_lanes (topic, lane)
SELECT ?, k.lane FROM JSON_TABLE(?, '$[*]' COLUMNS (lane int PATH '$')) k";

// One statement for both tables, because an idle relay asks this and little else.
const LOOK: &str = "
SELECT CAST(lane AS SIGNED), owner, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at),
  TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), quiet_until)
FROM outbox_lanes WHERE topic = ?
UNION ALL
SELECT -1, node, 0, 0, 0 FROM outbox_nodes WHERE topic = ? AND expires_at > UTC_TIMESTAMP(6)";

// Whoever keeps lanes of a topic waits for whoever else does, so that shares are taken one after the other.
const LOCK: &str = "SELECT CAST(lane AS SIGNED) FROM outbox_lanes WHERE topic = ? ORDER BY lane FOR UPDATE";

const PRUNE: &str = "DELETE FROM outbox_nodes WHERE topic = ? AND expires_at <= UTC_TIMESTAMP(6)";

const JOIN: &str = "
INSERT INTO outbox_nodes (topic, node, expires_at)
VALUES (?, UNHEX(?), TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)))
ON DUPLICATE KEY UPDATE expires_at = VALUES(expires_at)";

const LEAVE: &str = "DELETE FROM outbox_nodes WHERE topic = ? AND node = UNHEX(?)";

const WRITE: &str = "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (lane int PATH '$[0]', fence bigint PATH '$[1]', `change` int PATH '$[2]')) k
STRAIGHT_JOIN outbox_lanes l FORCE INDEX (PRIMARY) ON l.topic = ? AND l.lane = k.lane
SET l.fence = k.fence, l.owner = IF(k.`change` = 3, NULL, UNHEX(?)),
  l.expires_at = IF(k.`change` = 3, UTC_TIMESTAMP(6), TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6))),
  l.quiet_until = IF(k.`change` = 2, TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)), l.quiet_until)";

// Beside others: MariaDB has no LATERAL, with which a statement could limit each of several.
const SCAN: &str = "
SELECT * FROM (
  SELECT {scan} AS scan, CAST(id AS SIGNED), message_id, `key`, COALESCE(OCTET_LENGTH(payload), 0),
    CASE WHEN epoch = 0 THEN TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) ELSE 0 END
  FROM outbox_messages FORCE INDEX (outbox_messages_due)
  WHERE topic = ? AND lane = ? AND due_at = '1970-01-01 00:00:00' AND id > ? ORDER BY id LIMIT ?
) s{scan}";

const ROWS: &str = "
SELECT CAST(m.id AS SIGNED), m.message_id, m.epoch, m.failures, m.attempts, {is_suspect}, m.`key`, m.kind, m.headers, m.payload,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', m.created_at),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', m.deliver_at)
FROM JSON_TABLE(?, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id WHERE m.lane >= 0";

// So that nobody takes a lane before the write is there. It waits for a keeper in the middle of its work and for nobody else: to
// pass over the lanes that somebody has locked would leave a failure unwritten for that.
const SHARE_LANES: &str = "
SELECT CAST(lane AS SIGNED), fence FROM outbox_lanes FORCE INDEX (PRIMARY)
WHERE topic = ? AND owner = UNHEX(?) AND expires_at > UTC_TIMESTAMP(6) ORDER BY lane LOCK IN SHARE MODE";

const LOCK_OWNED: &str = "
SELECT CAST(m.id AS SIGNED), m.message_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]', epoch int PATH '$[2]',
  fence bigint PATH '$[3]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY)
  ON m.id = k.id AND m.message_id = UNHEX(k.message_id) AND m.epoch = k.epoch
STRAIGHT_JOIN JSON_TABLE(?, '$[*]' COLUMNS (lane int PATH '$[0]', fence bigint PATH '$[1]')) l
  ON l.lane = m.lane AND l.fence = k.fence
WHERE m.topic = ? FOR UPDATE SKIP LOCKED";

// due_at stays: the lane's owner does the waiting, and a row out of its place in the index
// would let a later one of its key pass.
const FAIL: &str = "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', spends int PATH '$[1]',
  class varchar(64) CHARACTER SET utf8mb4 PATH '$[2]', error varchar(1024) CHARACTER SET utf8mb4 PATH '$[3]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
SET m.epoch = {next_epoch}, m.failures = LEAST(m.failures, 2147483646) + 1,
  m.attempts = LEAST(m.attempts, 2147483646) + k.spends,
  m.errors = JSON_ARRAY_APPEND({errors}, '$',
    JSON_OBJECT('at', DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ'), 'class', k.class, 'error', k.error))";
