use std::sync::Arc;
use std::time::Duration;

use crate::limits::MYSQL_WRITE_SILENCE;
use crate::naming::TableNames;
use crate::store::lanes::{SCAN_COUNTS, scan_text};
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
    pub(super) remove_letters: Arc<str>,
    pub(super) extend: Arc<str>,
    pub(super) renew: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) bury: Arc<str>,
    /// For each of the scan counts.
    pub(super) look: [Arc<str>; SCAN_COUNTS.len()],
    pub(super) look_with_pauses: [Arc<str>; SCAN_COUNTS.len()],
    pub(super) backlog: Arc<str>,
}

impl Texts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(&tolerant(sql), names, IndexNaming::ByTable).into();
        let looks = |is_paused| {
            let one = LOOK.replace("{is_paused}", is_paused);
            SCAN_COUNTS.map(|count| text(&scan_text(&one, count)))
        };
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
            remove_letters: text(REMOVE_LETTERS),
            extend: text(EXTEND),
            renew: text(RENEW),
            fail: text(FAIL),
            bury: text(BURY),
            look: looks("0"),
            look_with_pauses: looks(IS_PAUSED),
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

/// The errors that another one is added to: at most 10, which is `limits::ERRORS_KEPT_MAX`, with it. Of what is no array, by somebody's
/// own hand, JSON_REMOVE would make NULL, and fail the whole group: they start anew.
const ERRORS: &str = "CASE WHEN NOT (JSON_TYPE(m.errors) <=> 'ARRAY') THEN JSON_ARRAY() \
  WHEN JSON_LENGTH(m.errors) < 10 THEN m.errors ELSE JSON_REMOVE(m.errors, '$[0]') END";

/// From the highest number it goes on with 1: the sum would be out of range, and fail the whole group.
const NEXT_EPOCH: &str = "m.epoch % 2147483647 + 1";

/// Where a claim or a look begins: so long after 1970, or, where no instant is that early, at the beginning. That is the year 0, which is no
/// instant to the functions of time, and which MariaDB lets somebody set by default (`due_at = 0`).
const FROM: &str = "COALESCE(TIMESTAMPADD(MICROSECOND, ?, TIMESTAMP'1970-01-01 00:00:00'), FROM_DAYS(0))";

/// The statement with what makes of a row of any values one that fails no other.
pub(super) fn tolerant(sql: &str) -> String {
    let sql = sql.replace("{is_suspect}", IS_SUSPECT).replace("{errors}", ERRORS);
    sql.replace("{next_epoch}", NEXT_EPOCH).replace("{from}", FROM)
}

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
WHERE topic = ? AND lane = -1 AND due_at >= {from}
  AND due_at <= UTC_TIMESTAMP(6)
ORDER BY due_at, id LIMIT ? FOR UPDATE SKIP LOCKED";

const PAYLOADS: &str = "
SELECT CAST(m.id AS SIGNED), m.payload
FROM JSON_TABLE(?, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k
STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id";

const WATERMARK: &str = "
SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), (
  SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', due_at), -9223372036854775807) FROM outbox_messages
  WHERE topic = ? AND lane = -1 AND due_at >= {from}
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

// By the id as well, under which a message that was sent again died: that dead letter is of the later copy.
const SETTLE_DEAD: &str = "
DELETE d FROM JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]'
)) k STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) AND d.id = k.id";

const REMOVE_LETTERS: &str = "
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
SET m.due_at = TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)), m.epoch = {next_epoch}";

// Texts name their character set: a column of JSON_TABLE has the database's, and MariaDB
// then breaks the JSON.
const FAIL: &str = "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', wait_micros bigint PATH '$[1]', spends int PATH '$[2]',
  class varchar(64) CHARACTER SET utf8mb4 PATH '$[3]', error varchar(1024) CHARACTER SET utf8mb4 PATH '$[4]'
)) k STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
SET m.due_at = TIMESTAMPADD(MICROSECOND, k.wait_micros, UTC_TIMESTAMP(6)),
  m.epoch = {next_epoch}, m.failures = LEAST(m.failures, 2147483646) + 1,
  m.attempts = LEAST(m.attempts, 2147483646) + k.spends,
  m.errors = JSON_ARRAY_APPEND({errors}, '$',
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

// A SELECT for each topic, because a range whose bounds come from a row beside it is read from its beginning on these servers, over
// whatever the purge has not removed there. It begins so long after 1970 and
// so long ago, whichever is later, and ends so long ahead; all in microseconds.
const LOOK: &str = "
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

const IS_PAUSED: &str = "EXISTS (SELECT 1 FROM outbox_paused_topics WHERE topic = ?)";

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
