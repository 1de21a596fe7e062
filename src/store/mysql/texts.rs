use std::sync::Arc;
use std::time::Duration;

use crate::limits::MYSQL_WRITE_SILENCE;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements, under the names of one outbox.
///
/// Groups come as JSON and drive the join (STRAIGHT_JOIN), so that rows are locked in the order in which they are
/// named. Indexes are forced: of a small table all rows would be read, and each of them locked or waited for. No
/// statement returns what it wrote: MySQL has no RETURNING, so rows are locked by a SELECT first, and written by id
/// then.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) confirm: Arc<str>,
    pub(super) remaining: Arc<str>,
    pub(super) claim: Arc<str>,
    pub(super) payloads: Arc<str>,
    pub(super) watermark: Arc<str>,
    pub(super) lock: Arc<str>,
    pub(super) lock_waiting: Arc<str>,
    pub(super) lock_held: Arc<str>,
    pub(super) delete: Arc<str>,
    pub(super) settle_dead: Arc<str>,
    pub(super) extend: Arc<str>,
    pub(super) renew: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) bury: Arc<str>,
    pub(super) look: Arc<str>,
    pub(super) look_with_pauses: Arc<str>,
    pub(super) backlog: Arc<str>,
}

impl Texts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(&sql.replace("{is_suspect}", IS_SUSPECT), names, IndexNaming::ByTable).into();
        Self {
            confirm: text(CONFIRM),
            remaining: text(REMAINING),
            claim: text(CLAIM),
            payloads: text(PAYLOADS),
            watermark: text(WATERMARK),
            lock: text(&LOCK.replace("{locking}", "SKIP LOCKED")),
            lock_waiting: text(&LOCK.replace("{locking}", "")),
            lock_held: text(LOCK_HELD),
            delete: text(DELETE),
            settle_dead: text(SETTLE_DEAD),
            extend: text(EXTEND),
            renew: text(RENEW),
            fail: text(FAIL),
            bury: text(BURY),
            look: text(&LOOK.replace("{is_paused}", "0")),
            look_with_pauses: text(&LOOK.replace("{is_paused}", IS_PAUSED)),
            backlog: text(BACKLOG),
        }
    }
}

/// Opens a transaction that the server ends, and with it its locks, once its process has been silent for so long, in whole seconds,
/// which is all that the servers know: MariaDB by a setting for that, MySQL by the one for all silence.
pub(super) fn begin(silence: Duration) -> Arc<str> {
    let secs = silence.as_millis().div_ceil(1_000);
    format!(
        "SET SESSION /*!80000 wait_timeout = {secs}, */ /*M!100600 idle_transaction_timeout = {secs}, */ \
         lc_messages = 'en_US'; START TRANSACTION READ WRITE"
    )
    .into()
}

/// The same for statements that follow each other at once.
pub(super) fn begin_write() -> Arc<str> {
    begin(MYSQL_WRITE_SILENCE)
}

/// Commits, and lets a kept connection be silent again.
pub(super) const COMMIT: &str = "COMMIT; SET SESSION /*!80000 wait_timeout = DEFAULT, */ lc_messages = 'en_US'";

/// Whether a row's last failure was a refusal. Errors of an earlier life as a dead letter do not count. Not by `$[last]`, which
/// MariaDB knows from 10.9 on; never below 0, which is no path and would fail the claim.
pub(super) const IS_SUSPECT: &str = "IF(failures > 0, \
  JSON_UNQUOTE(JSON_EXTRACT(errors, CONCAT('$[', GREATEST(JSON_LENGTH(errors), 1) - 1, '].class'))) <=> 'record_refused', 0)";

// By message: an INSERT does not tell its id.
const CONFIRM: &str = "
SELECT CAST(m.id AS SIGNED), m.message_id, m.epoch, m.failures, m.attempts, 0, m.`key`, m.kind, m.headers, m.payload,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', m.created_at), NULL, m.topic,
  TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), m.due_at)
FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m ON m.message_id = UNHEX(k.message_id)
WHERE m.epoch = 0 AND m.deliver_at IS NULL";

const REMAINING: &str = "
SELECT CAST(m.id AS SIGNED), m.message_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m ON m.message_id = UNHEX(k.message_id)";

// Without the payloads, of which only so many bytes are wanted: a window that adds them up would not lock the rows.
const CLAIM: &str = "
SELECT CAST(id AS SIGNED), message_id, epoch, failures, attempts, {is_suspect}, `key`, kind, headers, NULL,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', created_at),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', deliver_at), OCTET_LENGTH(payload)
FROM outbox_messages FORCE INDEX (outbox_messages_due)
WHERE topic = ? AND lane = -1 AND due_at > TIMESTAMPADD(MICROSECOND, ?, TIMESTAMP'1970-01-01 00:00:00')
  AND due_at <= UTC_TIMESTAMP(6)
ORDER BY due_at, id LIMIT ? FOR UPDATE SKIP LOCKED";

const PAYLOADS: &str = "
SELECT CAST(m.id AS SIGNED), m.payload
FROM JSON_TABLE(?, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id";

const WATERMARK: &str = "
SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), (
  SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', due_at) FROM outbox_messages
  WHERE topic = ? AND lane = -1 AND due_at > TIMESTAMPADD(MICROSECOND, ?, TIMESTAMP'1970-01-01 00:00:00')
  ORDER BY due_at LIMIT 1
)";

const LOCK: &str = "
SELECT CAST(m.id AS SIGNED), m.message_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id AND m.message_id = UNHEX(k.message_id)
FOR UPDATE {locking}";

const LOCK_HELD: &str = "
SELECT CAST(m.id AS SIGNED), m.message_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]', epoch int PATH '$[2]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY)
  ON m.id = k.id AND m.message_id = UNHEX(k.message_id) AND m.epoch = k.epoch
FOR UPDATE SKIP LOCKED";

const DELETE: &str = "
DELETE m FROM JSON_TABLE(?, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id";

const SETTLE_DEAD: &str = "
DELETE d FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k
STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id)";

const EXTEND: &str = "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
SET m.due_at = TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6))";

// What is due then, under the next epoch: rows held on, and rows given back.
const RENEW: &str = "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
SET m.due_at = TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)), m.epoch = m.epoch + 1";

// 10 is limits::ERRORS_KEPT_MAX. Texts name their character set: a column of JSON_TABLE has the database's, and MariaDB
// then breaks the JSON.
const FAIL: &str = "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', wait_micros bigint PATH '$[1]', spends int PATH '$[2]',
  class varchar(64) CHARACTER SET utf8mb4 PATH '$[3]', error varchar(1024) CHARACTER SET utf8mb4 PATH '$[4]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
SET m.due_at = TIMESTAMPADD(MICROSECOND, k.wait_micros, UTC_TIMESTAMP(6)),
  m.epoch = m.epoch + 1, m.failures = m.failures + 1, m.attempts = m.attempts + k.spends,
  m.errors = JSON_ARRAY_APPEND(
    IF(JSON_LENGTH(m.errors) < 10, m.errors, JSON_REMOVE(m.errors, '$[0]')), '$',
    JSON_OBJECT('at', DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ'), 'class', k.class, 'error', k.error))";

// A message that is dead already, because an operator copied one back, stays as it died.
const BURY: &str = "
INSERT INTO outbox_dead_letters (id, message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch,
  attempts, failures, errors, created_at, reason)
SELECT m.id, m.message_id, m.topic, m.lane, m.`key`, m.kind, m.headers, m.payload, m.due_at, m.deliver_at, m.epoch,
  m.attempts, m.failures, m.errors, m.created_at, k.reason
FROM JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', reason varchar(1024) CHARACTER SET utf8mb4 PATH '$[1]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
ON DUPLICATE KEY UPDATE message_id = outbox_dead_letters.message_id";

// The topic in the character set of its column, or no index is used.
const LOOK: &str = "
SELECT k.topic, (
  SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), m.due_at) FROM outbox_messages m
  WHERE m.topic = k.topic AND m.lane = -1 ORDER BY m.due_at LIMIT 1
), (
  SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), m.due_at) FROM outbox_messages m
  WHERE m.topic = k.topic AND m.lane = -1 AND m.due_at > UTC_TIMESTAMP(6) ORDER BY m.due_at LIMIT 1
), CAST({is_paused} AS SIGNED)
FROM JSON_TABLE(?, '$[*]' COLUMNS (topic varchar(249) CHARACTER SET ascii COLLATE ascii_bin PATH '$')) k";

const IS_PAUSED: &str = "EXISTS (SELECT 1 FROM outbox_paused_topics p WHERE p.topic = k.topic)";

const BACKLOG: &str = "
SELECT CAST(LEAST(m.live + o.ordered, ?) AS SIGNED), m.due, m.overdue_by, d.dead,
  (SELECT MIN(topic) FROM outbox_messages WHERE topic > ?), (SELECT MIN(topic) FROM outbox_dead_letters WHERE topic > ?)
FROM (
  SELECT COUNT(*) AS live, CAST(COALESCE(SUM(due_at <= UTC_TIMESTAMP(6)), 0) AS SIGNED) AS due,
    TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6)) AS overdue_by
  FROM (
    SELECT due_at FROM outbox_messages FORCE INDEX (outbox_messages_due)
    WHERE topic = ? AND lane = -1 ORDER BY due_at LIMIT ?
  ) r
) m CROSS JOIN (
  SELECT COUNT(*) AS ordered FROM (
    SELECT 1 FROM outbox_messages FORCE INDEX (outbox_messages_due) WHERE topic = ? AND lane >= 0 LIMIT ?
  ) r
) o CROSS JOIN (
  SELECT COUNT(*) AS dead FROM (
    SELECT 1 FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic) WHERE topic = ? LIMIT ?
  ) r
) d";
