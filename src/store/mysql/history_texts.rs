use std::sync::Arc;

use super::admin_texts::BACK;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements of the history, under the names of one outbox.
#[derive(Debug)]
pub(super) struct HistoryTexts {
    pub(super) keep: Arc<str>,
    pub(super) keep_dead: Arc<str>,
    pub(super) take_marks: Arc<str>,
    pub(super) lock_fallen: Arc<str>,
    pub(super) delete: Arc<str>,
    pub(super) lock_dead: Arc<str>,
    pub(super) lock_old_dead: Arc<str>,
    pub(super) lock_old_marks: Arc<str>,
    pub(super) fold_marks: Arc<str>,
    pub(super) delete_marks: Arc<str>,
    pub(super) sent: Arc<str>,
    pub(super) sent_of_key: Arc<str>,
    pub(super) unprocessed: Arc<str>,
    pub(super) unprocessed_marks: Arc<str>,
    pub(super) count: Arc<str>,
    pub(super) lock_sent: Arc<str>,
    pub(super) mark: Arc<str>,
    pub(super) mark_ahead: Arc<str>,
    pub(super) lock_unprocessed: Arc<str>,
    pub(super) sent_keys: Arc<str>,
    pub(super) send_again: Arc<str>,
}

impl HistoryTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| {
            let sql = sql.replace("{keep}", KEEP).replace("{ids}", IDS).replace("{sent}", SENT).replace("{page}", PAGE);
            let sql = sql.replace("{back}", BACK).replace("{epoch}", "TIMESTAMP'1970-01-01 00:00:00'");
            named(&sql, names, IndexNaming::ByTable).into()
        };
        Self {
            keep: text(KEEP_LIVE),
            keep_dead: text(KEEP_DEAD),
            take_marks: text(TAKE_MARKS),
            lock_fallen: text(LOCK_FALLEN),
            delete: text(DELETE),
            lock_dead: text(LOCK_DEAD),
            lock_old_dead: text(LOCK_OLD_DEAD),
            lock_old_marks: text(LOCK_OLD_MARKS),
            fold_marks: text(FOLD_MARKS),
            delete_marks: text(DELETE_MARKS),
            sent: text(SENT_ONE),
            sent_of_key: text(SENT_OF_KEY),
            unprocessed: text(UNPROCESSED),
            unprocessed_marks: text(&UNPROCESSED.replace("{sent}", SENT_MARK)),
            count: text(COUNT),
            lock_sent: text(LOCK_SENT),
            mark: text(MARK),
            mark_ahead: text(MARK_AHEAD),
            lock_unprocessed: text(LOCK_UNPROCESSED),
            sent_keys: text(SENT_KEYS),
            send_again: text(SEND_AGAIN),
        }
    }
}

const IDS: &str = "JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k";

// A mark that came before its message is read here and removed by the next statement.
const KEEP: &str = "
INSERT INTO outbox_history (id, message_id, topic, lane, `key`, kind, headers, payload, deliver_at, epoch, attempts, failures,
  errors, created_at, sent_at, falls_on, awaits_processing, processed_at)
SELECT m.id, m.message_id, m.topic, m.lane, m.`key`, m.kind, m.headers, m.payload, m.deliver_at, m.epoch, m.attempts,
  m.failures, m.errors, m.created_at, UTC_TIMESTAMP(6), UTC_DATE() + INTERVAL (k.days + 1) DAY, k.awaits,
  IF(k.awaits, (SELECT p.marked_at FROM outbox_processed_marks p WHERE p.message_id = m.message_id), NULL)
FROM JSON_TABLE(?, '$[*]' COLUMNS (
  message_id char(32) CHARACTER SET ascii PATH '$[0]', id bigint unsigned PATH '$[1]', days int PATH '$[2]', awaits int PATH '$[3]'
)) k";

const KEEP_LIVE: &str = "{keep} STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
ON DUPLICATE KEY UPDATE message_id = outbox_history.message_id";

const KEEP_DEAD: &str =
    "{keep} STRAIGHT_JOIN outbox_dead_letters m FORCE INDEX (PRIMARY) ON m.message_id = UNHEX(k.message_id)
ON DUPLICATE KEY UPDATE message_id = outbox_history.message_id";

// Only marks that were read: one that was committed since stays, and every reader looks for those, too.
const TAKE_MARKS: &str = "
DELETE p FROM {ids}
STRAIGHT_JOIN outbox_processed_marks p FORCE INDEX (PRIMARY) ON p.message_id = UNHEX(k.message_id)
STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = p.message_id
WHERE h.processed_at IS NOT NULL";

const LOCK_FALLEN: &str = "
SELECT CAST(id AS SIGNED), message_id FROM outbox_history FORCE INDEX (outbox_history_falls)
WHERE falls_on <= UTC_DATE() ORDER BY falls_on LIMIT ? FOR UPDATE SKIP LOCKED";

const DELETE: &str = "
DELETE h FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)";

const LOCK_DEAD: &str = "
SELECT CAST(d.id AS SIGNED), d.message_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (
  id bigint unsigned PATH '$[0]', message_id char(32) CHARACTER SET ascii PATH '$[1]'
)) k STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) AND d.id = k.id
FOR UPDATE";

const LOCK_OLD_DEAD: &str = "
SELECT CAST(id AS SIGNED), message_id FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic)
WHERE topic = ? AND dead_at < TIMESTAMPADD(MICROSECOND, -?, UTC_TIMESTAMP(6)) ORDER BY dead_at LIMIT ? FOR UPDATE SKIP LOCKED";

// A mark has no id: a number in its place makes the row like the others.
const LOCK_OLD_MARKS: &str = "
SELECT CAST(0 AS SIGNED), message_id FROM outbox_processed_marks FORCE INDEX (outbox_processed_marks_age)
WHERE marked_at < TIMESTAMPADD(MICROSECOND, -?, UTC_TIMESTAMP(6)) ORDER BY marked_at LIMIT ? FOR UPDATE SKIP LOCKED";

const FOLD_MARKS: &str = "
UPDATE {ids}
STRAIGHT_JOIN outbox_processed_marks p FORCE INDEX (PRIMARY) ON p.message_id = UNHEX(k.message_id)
STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = p.message_id
SET h.processed_at = p.marked_at WHERE h.processed_at IS NULL";

const DELETE_MARKS: &str = "
DELETE p FROM {ids}
STRAIGHT_JOIN outbox_processed_marks p FORCE INDEX (PRIMARY) ON p.message_id = UNHEX(k.message_id)";

const SENT: &str = "
SELECT h.message_id, h.topic, h.lane, h.`key`, h.kind, h.headers, h.payload,
  TIMESTAMPDIFF(MICROSECOND, {epoch}, h.created_at), TIMESTAMPDIFF(MICROSECOND, {epoch}, h.sent_at), h.attempts, h.failures,
  CAST(h.awaits_processing AS SIGNED), CAST(COALESCE(h.processed_at, p.marked_at) IS NOT NULL AS SIGNED),
  TIMESTAMPDIFF(MICROSECOND, {epoch}, COALESCE(h.processed_at, p.marked_at, h.sent_at))
FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";

const SENT_MARK: &str = "
SELECT h.message_id, TIMESTAMPDIFF(MICROSECOND, {epoch}, h.sent_at)
FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";

const SENT_ONE: &str = "{sent} WHERE h.message_id = UNHEX(?)";

// Spelt out, because a comparison of rows uses no index.
const PAGE: &str = "AND h.sent_at >= TIMESTAMPADD(MICROSECOND, ?, {epoch}) AND (
  h.sent_at > TIMESTAMPADD(MICROSECOND, ?, {epoch}) OR h.message_id > UNHEX(?)
) ORDER BY h.sent_at, h.message_id LIMIT ?";

const SENT_OF_KEY: &str = "{sent} WHERE h.topic = ? AND h.`key` = ? {page}";

const UNPROCESSED: &str = "{sent} WHERE h.topic = ? AND h.awaits_processing = 1 AND h.processed_at IS NULL
  AND p.message_id IS NULL AND h.sent_at < TIMESTAMPADD(MICROSECOND, -?, UTC_TIMESTAMP(6)) {page}";

const COUNT: &str = "
SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM outbox_history WHERE topic = ? LIMIT ?) r), (
  SELECT COUNT(*) FROM (
    SELECT 1 FROM outbox_history h WHERE h.topic = ? AND h.awaits_processing = 1 AND h.processed_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id) LIMIT ?
  ) r
)";

const LOCK_SENT: &str = "
SELECT h.message_id, CAST(h.processed_at IS NOT NULL OR EXISTS (
  SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id
) AS SIGNED)
FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id) FOR UPDATE";

const MARK: &str = "
UPDATE {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)
SET h.processed_at = UTC_TIMESTAMP(6)";

const MARK_AHEAD: &str = "
INSERT INTO outbox_processed_marks (message_id) SELECT UNHEX(k.message_id) FROM {ids}
ON DUPLICATE KEY UPDATE message_id = outbox_processed_marks.message_id";

const LOCK_UNPROCESSED: &str = "
SELECT CAST(h.id AS SIGNED), h.message_id
FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)
WHERE h.processed_at IS NULL AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id)
FOR UPDATE SKIP LOCKED";

const SENT_KEYS: &str = "
SELECT h.message_id, h.topic, h.lane, h.`key`
FROM {ids} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id)";

// Under a new id in a lane or not: the settle of the copy before may still come, and would take this one for its own.
const SEND_AGAIN: &str = "
INSERT INTO outbox_messages
  (message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
SELECT h.message_id, h.topic, k.lane, h.`key`, h.kind, h.headers, h.payload, IF(k.lane >= 0, {epoch}, UTC_TIMESTAMP(6)),
  h.deliver_at, h.epoch % 2147483647 + 1, h.errors, h.created_at
FROM {back} STRAIGHT_JOIN outbox_history h FORCE INDEX (PRIMARY) ON h.message_id = UNHEX(k.message_id) ORDER BY h.id";
