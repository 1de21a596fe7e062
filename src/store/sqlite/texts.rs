use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// Milliseconds since 1970. Not `unixepoch('subsec')`, which is NULL before SQLite 3.42.
pub(super) const NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)";

/// The statements, under the names of one outbox.
///
/// From the highest epoch it goes on with 1, and counts stop: out of range, one row would fail its whole group.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) check: Arc<str>,
    pub(super) settings: [Arc<str>; 2],
    pub(super) confirm: Arc<str>,
    pub(super) remaining: Arc<str>,
    pub(super) select_due: Arc<str>,
    pub(super) lease: Arc<str>,
    pub(super) settle: Arc<str>,
    pub(super) settle_dead: Arc<str>,
    pub(super) hold: Arc<str>,
    pub(super) extend: Arc<str>,
    pub(super) release: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) bury: Arc<str>,
    pub(super) remove: Arc<str>,
    pub(super) look: Arc<str>,
    pub(super) look_with_pauses: Arc<str>,
    pub(super) backlog: Arc<str>,
}

impl Texts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| {
            let sql = sql.replace("{held}", HELD).replace("{now}", NOW).replace("{is_suspect}", IS_SUSPECT);
            named(&sql, names, IndexNaming::ByIndex).into()
        };
        let schema = names.schema_name().map(|schema| format!("{schema}.")).unwrap_or_default();
        Self {
            check: format!("SELECT sql FROM {schema}sqlite_master WHERE type = 'table' AND name = ?1").into(),
            settings: ["synchronous", "journal_mode"].map(|setting| format!("PRAGMA {schema}{setting}").into()),
            confirm: text(CONFIRM),
            remaining: text(REMAINING),
            select_due: text(SELECT_DUE),
            lease: text(LEASE),
            settle: text(SETTLE),
            settle_dead: text(SETTLE_DEAD),
            hold: text(HOLD),
            extend: text(EXTEND),
            release: text(RELEASE),
            fail: text(FAIL),
            bury: text(BURY),
            remove: text(REMOVE),
            look: text(&LOOK.replace("{is_paused}", "0")),
            look_with_pauses: text(&LOOK.replace("{is_paused}", IS_PAUSED)),
            backlog: text(BACKLOG),
        }
    }
}

/// Whether a row's last failure was a refusal. Errors of an earlier life as a dead letter do not count, and such as are no JSON
/// any more fail no claim.
pub(super) const IS_SUSPECT: &str = "CASE WHEN m.failures = 0 THEN 0 WHEN json_valid(m.errors) = 0 THEN 0 \
  ELSE coalesce(json_extract(m.errors, '$[#-1].class') = 'record_refused', 0) END";

// CROSS JOIN keeps SQLite from reading the table first: the group is what is short.
// ?1 holds [[id, epoch, ..], ..] and ?2 the message ids, in the same order.
const HELD: &str = "
SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) AND m.epoch = json_extract(k.value, '$[1]')";

const CONFIRM: &str = "
SELECT m.id, m.message_id, m.epoch, m.failures, m.attempts, 0, m.key, m.kind, m.headers, m.payload, m.created_at, NULL, m.topic,
  m.due_at - {now}
FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = k.value WHERE m.epoch = 0 AND m.deliver_at IS NULL";

const REMAINING: &str = "
SELECT id, message_id FROM outbox_messages WHERE id IN (SELECT value FROM json_each(?1))";

// Cut at the bytes on the lengths alone, and payloads read by primary key: through the window's sort they would be copied.
// One row at least comes back, so that the moment of reading is known also where nothing is due.
const SELECT_DUE: &str = "
WITH due AS MATERIALIZED (
  SELECT id, due_at, coalesce(length(payload), 0) AS bytes FROM outbox_messages
  WHERE topic = ?1 AND lane = -1 AND due_at >= ?2 AND due_at <= {now} ORDER BY due_at, id LIMIT ?3
), cut AS (
  SELECT id, count(*) OVER () AS found, row_number() OVER so_far AS place, sum(bytes) OVER so_far AS bytes
  FROM due WINDOW so_far AS (ORDER BY due_at, id)
)
SELECT s.read_at, coalesce(c.found, 0), m.due_at,
  m.id, m.message_id, m.epoch, m.failures, m.attempts, {is_suspect}, m.key, m.kind, m.headers, m.payload, m.created_at,
  m.deliver_at
FROM (SELECT {now} AS read_at) s LEFT JOIN cut c ON c.place = 1 OR c.bytes <= ?4
LEFT JOIN outbox_messages m ON m.id = c.id";

const LEASE: &str = "
UPDATE outbox_messages SET due_at = {now} + ?2, epoch = epoch % 2147483647 + 1 WHERE id IN (SELECT value FROM json_each(?1))";

const SETTLE: &str = "
DELETE FROM outbox_messages WHERE id IN (
  SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
  WHERE m.message_id = substr(?2, 16 * k.key + 1, 16)
) RETURNING id, message_id";

// By the id as well, under which a message that was sent again died: that dead letter is of the later copy.
const SETTLE_DEAD: &str = "
DELETE FROM outbox_dead_letters WHERE message_id IN (
  SELECT m.message_id FROM json_each(?1) k CROSS JOIN outbox_dead_letters m ON m.message_id = substr(?2, 16 * k.key + 1, 16)
  WHERE m.id = json_extract(k.value, '$[0]')
)";

const HOLD: &str = "
UPDATE outbox_messages SET due_at = {now} + ?3, epoch = epoch % 2147483647 + 1 WHERE id IN ({held}) RETURNING id, message_id, epoch";

const EXTEND: &str = "
UPDATE outbox_messages SET due_at = {now} + ?3 WHERE id IN ({held}) RETURNING id, message_id";

const RELEASE: &str = "
UPDATE outbox_messages SET due_at = {now}, epoch = epoch % 2147483647 + 1 WHERE id IN ({held}) RETURNING id, message_id";

// 10 is limits::ERRORS_KEPT_MAX. Errors that are no JSON array any more would fail the whole group: they start anew.
const FAIL: &str = "
UPDATE outbox_messages AS m SET
  due_at = {now} + json_extract(k.value, '$[2]'),
  epoch = m.epoch % 2147483647 + 1, failures = min(m.failures, 2147483646) + 1,
  attempts = min(m.attempts, 2147483646) + json_extract(k.value, '$[3]'),
  errors = json_insert(
    CASE WHEN json_valid(m.errors) = 0 THEN '[]' WHEN json_type(m.errors) <> 'array' THEN '[]'
      WHEN json_array_length(m.errors) < 10 THEN m.errors ELSE json_remove(m.errors, '$[0]') END,
    '$[#]', json_object('at', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
      'class', json_extract(k.value, '$[4]'), 'error', json_extract(k.value, '$[5]')))
FROM json_each(?1) k
WHERE m.id = json_extract(k.value, '$[0]') AND m.message_id = substr(?2, 16 * k.key + 1, 16)
  AND m.epoch = json_extract(k.value, '$[1]')
RETURNING id, message_id";

// WHERE, because without one ON CONFLICT would be read as the ON of the join. The message is dead already where an
// operator copied one back: the row goes all the same, and one such row does not fail its group.
const BURY: &str = "
INSERT INTO outbox_dead_letters (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch,
  attempts, failures, errors, created_at, reason)
SELECT m.id, m.message_id, m.topic, m.lane, m.key, m.kind, m.headers, m.payload, m.due_at, m.deliver_at, m.epoch,
  m.attempts, m.failures, m.errors, m.created_at, json_extract(k.value, '$[2]')
FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) AND m.epoch = json_extract(k.value, '$[1]')
ON CONFLICT (message_id) DO NOTHING";

const REMOVE: &str = "DELETE FROM outbox_messages WHERE id IN ({held}) RETURNING id, message_id";

// ?1 holds [[topic, begins behind, or so long ago], ..]: one of the two.
const LOOK: &str = "
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

const IS_PAUSED: &str = "EXISTS (SELECT 1 FROM outbox_paused_topics p WHERE p.topic = t.topic)";

// The recursions hop from one topic to the next in the index: DISTINCT would read all of it.
const BACKLOG: &str = "
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

#[cfg(test)]
mod tests {
    use diesel::connection::{Connection, SimpleConnection};
    use diesel::prelude::*;
    use diesel::sql_query;
    use diesel::sql_types::Text;
    use diesel::sqlite::SqliteConnection;

    use super::*;

    #[derive(QueryableByName)]
    struct Step {
        #[diesel(sql_type = Text)]
        detail: String,
    }

    fn plan(conn: &mut SqliteConnection, text: &str) -> Vec<String> {
        let steps: Vec<Step> = sql_query(format!("EXPLAIN QUERY PLAN {text}")).load(conn).unwrap();
        steps.into_iter().map(|step| step.detail).collect()
    }

    #[test]
    fn no_statement_reads_a_whole_table() {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        conn.batch_execute(include_str!("../../../migrations/sqlite/0000outbox01_messages/up.sql")).unwrap();
        conn.batch_execute(include_str!("../../../migrations/sqlite/0000outbox04_paused_topics/up.sql")).unwrap();
        let texts = Texts::new(&TableNames::default());
        let Texts {
            confirm,
            remaining,
            select_due,
            lease,
            settle,
            settle_dead,
            hold,
            extend,
            release,
            fail,
            bury,
            remove,
            ..
        } = &texts;
        let by_id = [confirm, remaining, lease, settle, settle_dead, hold, extend, release, fail, bury, remove];
        for text in by_id.into_iter().chain([select_due, &texts.look, &texts.look_with_pauses, &texts.backlog]) {
            let plan = plan(&mut conn, text);
            let scans = |step: &String| step.starts_with("SCAN m") || step.starts_with("SCAN outbox_");
            assert!(!plan.iter().any(scans), "{text}\n{plan:#?}");
        }
    }

    #[test]
    fn what_is_due_is_found_by_the_index() {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        conn.batch_execute(include_str!("../../../migrations/sqlite/0000outbox01_messages/up.sql")).unwrap();
        let texts = Texts::new(&TableNames::default());
        let claim = plan(&mut conn, &texts.select_due);
        let range = "USING INDEX outbox_messages_due (topic=? AND lane=? AND due_at>? AND due_at<?)";
        assert!(claim.iter().any(|step| step.contains(range)), "{claim:#?}");
        let look = plan(&mut conn, &texts.look);
        let first = "USING COVERING INDEX outbox_messages_due (topic=? AND lane=? AND due_at>? AND due_at<?)";
        assert!(look.iter().any(|step| step.contains(first)), "{look:#?}");
        let sorted = look.iter().any(|step| step.contains("TEMP B-TREE"));
        assert!(!sorted, "{look:#?}");
    }
}
