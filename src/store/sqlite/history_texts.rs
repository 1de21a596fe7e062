use std::sync::Arc;

use super::texts::NOW;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements of the history, under the names of one outbox.
#[derive(Debug)]
pub(super) struct HistoryTexts {
    pub(super) keep: Arc<str>,
    pub(super) keep_dead: Arc<str>,
    pub(super) take_marks: Arc<str>,
    pub(super) fallen: Arc<str>,
    pub(super) prune: Arc<str>,
    pub(super) prune_dead: Arc<str>,
    pub(super) fold_marks: Arc<str>,
    pub(super) delete_marks: Arc<str>,
    pub(super) sent: Arc<str>,
    pub(super) sent_of_key: Arc<str>,
    pub(super) unprocessed: Arc<str>,
    pub(super) unprocessed_marks: Arc<str>,
    pub(super) count: Arc<str>,
    pub(super) look_for_marks: Arc<str>,
    pub(super) mark: Arc<str>,
    pub(super) mark_ahead: Arc<str>,
    pub(super) sent_keys: Arc<str>,
    pub(super) send_again: Arc<str>,
    pub(super) remove_sent: Arc<str>,
}

impl HistoryTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| {
            let sql = sql.replace("{keep}", KEEP).replace("{sent}", SENT).replace("{page}", PAGE);
            let sql = sql
                .replace("{old_marks}", OLD_MARKS)
                .replace("{again}", AGAIN)
                .replace("{back}", BACK)
                .replace("{ids}", IDS);
            let sql = sql.replace("{unmarked}", UNMARKED).replace("{now}", NOW).replace("{today}", TODAY);
            named(&sql, names, IndexNaming::ByIndex).into()
        };
        Self {
            keep: text(KEEP_LIVE),
            keep_dead: text(KEEP_DEAD),
            take_marks: text(TAKE_MARKS),
            fallen: text(FALLEN),
            prune: text(PRUNE),
            prune_dead: text(PRUNE_DEAD),
            fold_marks: text(FOLD_MARKS),
            delete_marks: text(DELETE_MARKS),
            sent: text(SENT_ONE),
            sent_of_key: text(SENT_OF_KEY),
            unprocessed: text(UNPROCESSED),
            unprocessed_marks: text(&UNPROCESSED.replace("{sent}", SENT_MARK)),
            count: text(COUNT),
            look_for_marks: text(LOOK_FOR_MARKS),
            mark: text(MARK),
            mark_ahead: text(MARK_AHEAD),
            sent_keys: text(SENT_KEYS),
            send_again: text(SEND_AGAIN),
            remove_sent: text(REMOVE_SENT),
        }
    }
}

/// Days since 1970.
const TODAY: &str = "CAST(julianday('now') - 2440587.5 AS integer)";

/// Message ids, one behind the other in ?1.
const IDS: &str = "
WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1))
SELECT substr(?1, place, 16) FROM k";

const UNMARKED: &str = "NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id)";

// ?1 holds [[id, days, awaits], ..] and ?2 the message ids, in the same order.
const KEEP: &str = "
INSERT INTO outbox_history (id, message_id, topic, lane, key, kind, headers, payload, deliver_at, epoch, attempts, failures,
  errors, created_at, sent_at, falls_on, awaits_processing, processed_at)
SELECT m.id, m.message_id, m.topic, m.lane, m.key, m.kind, m.headers, m.payload, m.deliver_at, m.epoch, m.attempts, m.failures,
  m.errors, m.created_at, {now}, {today} + json_extract(k.value, '$[1]') + 1, json_extract(k.value, '$[2]'),
  CASE json_extract(k.value, '$[2]') WHEN 1 THEN (
    SELECT p.marked_at FROM outbox_processed_marks p WHERE p.message_id = m.message_id
  ) END
FROM json_each(?1) k";

// WHERE, because without one ON CONFLICT would be read as the ON of the join.
const KEEP_LIVE: &str = "{keep} CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) ON CONFLICT (message_id) DO NOTHING";

const KEEP_DEAD: &str = "{keep} CROSS JOIN outbox_dead_letters m ON m.message_id = substr(?2, 16 * k.key + 1, 16)
WHERE m.id = json_extract(k.value, '$[0]') ON CONFLICT (message_id) DO NOTHING";

// Nobody else can write between the two: what is marked has been read.
const TAKE_MARKS: &str = "
DELETE FROM outbox_processed_marks WHERE message_id IN ({ids}) AND message_id IN (
  SELECT message_id FROM outbox_history WHERE message_id IN ({ids}) AND processed_at IS NOT NULL
)";

// Of the first ?1 rows to be removed, how many begin within ?2 bytes: the first whatever its size. The length of a payload stands in
// front of it, so that none is read: it is asked for where the row is, because a subquery hands its columns up whole.
const FALLEN: &str = "
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

const PRUNE: &str = "
DELETE FROM outbox_history WHERE rowid IN (
  SELECT rowid FROM outbox_history WHERE falls_on <= {today} ORDER BY falls_on, rowid LIMIT ?1
)";

const PRUNE_DEAD: &str = "
DELETE FROM outbox_dead_letters WHERE message_id IN (
  SELECT message_id FROM outbox_dead_letters WHERE topic = ?1 AND dead_at < {now} - ?2 ORDER BY dead_at LIMIT ?3
)";

const OLD_MARKS: &str =
    "SELECT message_id FROM outbox_processed_marks WHERE marked_at < {now} - ?1 ORDER BY marked_at LIMIT ?2";

const FOLD_MARKS: &str = "
UPDATE outbox_history SET processed_at = (
  SELECT p.marked_at FROM outbox_processed_marks p WHERE p.message_id = outbox_history.message_id
) WHERE processed_at IS NULL AND message_id IN ({old_marks})";

const DELETE_MARKS: &str = "
DELETE FROM outbox_processed_marks WHERE message_id IN ({old_marks}) AND NOT EXISTS (
  SELECT 1 FROM outbox_history h WHERE h.message_id = outbox_processed_marks.message_id AND h.processed_at IS NULL
)";

const SENT: &str = "
SELECT h.message_id, h.topic, h.lane, h.key, h.kind, h.headers, h.payload, h.created_at, h.sent_at, h.attempts, h.failures,
  h.awaits_processing, coalesce(h.processed_at, p.marked_at) IS NOT NULL, coalesce(h.processed_at, p.marked_at, h.sent_at)
FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";

const SENT_MARK: &str = "
SELECT h.message_id, h.sent_at
FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";

const SENT_ONE: &str = "{sent} WHERE h.message_id = ?1";

const PAGE: &str = "AND (h.sent_at, h.message_id) > (?3, ?4) ORDER BY h.sent_at, h.message_id LIMIT ?5";

const SENT_OF_KEY: &str = "{sent} WHERE h.topic = ?1 AND h.key = ?2 {page}";

const UNPROCESSED: &str = "{sent} WHERE h.topic = ?1 AND h.awaits_processing = 1 AND h.processed_at IS NULL
  AND p.message_id IS NULL AND h.sent_at < {now} - ?2 {page}";

const COUNT: &str = "
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_history WHERE topic = ?1 LIMIT ?2)), (
  SELECT count(*) FROM (
    SELECT 1 FROM outbox_history h WHERE h.topic = ?1 AND h.awaits_processing = 1 AND h.processed_at IS NULL AND {unmarked}
    LIMIT ?2
  )
)";

const LOOK_FOR_MARKS: &str = "
WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1)),
asked(message_id) AS (SELECT DISTINCT substr(?1, place, 16) FROM k)
SELECT a.message_id, CASE WHEN h.message_id IS NULL THEN 2 WHEN h.processed_at IS NOT NULL THEN 1 WHEN {unmarked} THEN 0 ELSE 1 END
FROM asked a LEFT JOIN outbox_history h ON h.message_id = a.message_id";

const MARK: &str = "
UPDATE outbox_history AS h SET processed_at = {now}
WHERE h.message_id IN ({ids}) AND h.processed_at IS NULL AND {unmarked}";

const MARK_AHEAD: &str = "
INSERT INTO outbox_processed_marks (message_id)
SELECT message_id FROM (
  WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1))
  SELECT DISTINCT substr(?1, place, 16) AS message_id FROM k
) WHERE message_id NOT IN (SELECT message_id FROM outbox_history WHERE message_id IN ({ids}))
ON CONFLICT (message_id) DO NOTHING";

const AGAIN: &str = "FROM outbox_history h WHERE h.processed_at IS NULL AND {unmarked} AND h.message_id IN ({ids})";

const SENT_KEYS: &str = "SELECT message_id, topic, lane, key FROM outbox_history WHERE message_id IN ({ids})";

// ?1 holds the message ids and ?2 the lanes, in the same order.
const BACK: &str = "
FROM json_each(?2) k CROSS JOIN outbox_history h ON h.message_id = substr(?1, 16 * k.key + 1, 16)
WHERE h.processed_at IS NULL AND {unmarked}";

// Under a new id in a lane or not: the settle of the copy before may still come, and would take this one for its own.
const SEND_AGAIN: &str = "
INSERT INTO outbox_messages
  (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
SELECT h.message_id, h.topic, k.value, h.key, h.kind, h.headers, h.payload, CASE WHEN k.value >= 0 THEN 0 ELSE {now} END,
  h.deliver_at, h.epoch % 2147483647 + 1, h.errors, h.created_at {back} ORDER BY h.id";

const REMOVE_SENT: &str =
    "DELETE FROM outbox_history WHERE message_id IN (SELECT h.message_id {again}) RETURNING message_id";
