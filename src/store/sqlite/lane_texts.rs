use std::sync::Arc;

use super::texts::{IS_SUSPECT, NOW};
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
    pub(super) prune: Arc<str>,
    pub(super) join: Arc<str>,
    pub(super) leave: Arc<str>,
    pub(super) write: Arc<str>,
    /// For each of the scan counts.
    pub(super) entries: [Arc<str>; SCAN_COUNTS.len()],
    pub(super) rows: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) bury: Arc<str>,
    pub(super) remove: Arc<str>,
}

impl LaneTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| {
            let sql = sql.replace("{owned}", OWNED).replace("{now}", NOW).replace("{is_suspect}", IS_SUSPECT);
            named(&sql, names, IndexNaming::ByIndex).into()
        };
        Self {
            count: text(COUNT),
            first_from: text(FIRST_FROM),
            create: text(CREATE),
            look: text(LOOK),
            prune: text(PRUNE),
            join: text(JOIN),
            leave: text(LEAVE),
            write: text(WRITE),
            entries: SCAN_COUNTS.map(|count| text(&scan_text(SCAN, count))),
            rows: text(ROWS),
            fail: text(FAIL),
            bury: text(BURY),
            remove: text(REMOVE),
        }
    }
}

const COUNT: &str = "SELECT count(*) FROM outbox_lanes WHERE topic = ?1";

// Through the index: its lanes from 0 on are all of the topic's ordered rows.
const FIRST_FROM: &str = "SELECT lane FROM outbox_messages WHERE topic = ?1 AND lane >= ?2 ORDER BY lane LIMIT 1";

// All of them or none: where two nodes make them at once, of different counts, the second finds the first one's.
const CREATE: &str = "
INSERT INTO outbox_lanes (topic, lane) SELECT ?1, value FROM json_each(?2)";

// One statement for both tables, because an idle relay asks this and little else.
const LOOK: &str = "
SELECT lane, owner, fence, expires_at - {now}, quiet_until - {now} FROM outbox_lanes WHERE topic = ?1
UNION ALL
SELECT -1, node, 0, 0, 0 FROM outbox_nodes WHERE topic = ?1 AND expires_at > {now}";

const PRUNE: &str = "DELETE FROM outbox_nodes WHERE topic = ?1 AND expires_at <= {now}";

const JOIN: &str = "
INSERT INTO outbox_nodes (topic, node, expires_at) VALUES (?1, ?2, {now} + ?3)
ON CONFLICT (topic, node) DO UPDATE SET expires_at = excluded.expires_at";

const LEAVE: &str = "DELETE FROM outbox_nodes WHERE topic = ?1 AND node = ?2";

// ?3 holds [[lane, fence, change], ..].
const WRITE: &str = "
UPDATE outbox_lanes AS l SET fence = json_extract(k.value, '$[1]'),
  owner = CASE json_extract(k.value, '$[2]') WHEN 3 THEN NULL ELSE ?2 END,
  expires_at = {now} + CASE json_extract(k.value, '$[2]') WHEN 3 THEN 0 ELSE ?4 END,
  quiet_until = CASE json_extract(k.value, '$[2]') WHEN 2 THEN {now} + ?5 ELSE l.quiet_until END
FROM json_each(?3) k WHERE l.topic = ?1 AND l.lane = json_extract(k.value, '$[0]')";

// Beside others: SQLite has no LATERAL, with which a statement could limit each of several.
const SCAN: &str = "
SELECT * FROM (
  SELECT {scan} AS scan, id, message_id, key, coalesce(length(payload), 0) FROM outbox_messages
  WHERE topic = ? AND lane = ? AND due_at = 0 AND id > ? ORDER BY id LIMIT ?
)";

const ROWS: &str = "
SELECT m.id, m.message_id, m.epoch, m.failures, m.attempts, {is_suspect}, m.key, m.kind, m.headers, m.payload, m.created_at,
  m.deliver_at
FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = k.value WHERE m.lane >= 0";

// ?1 holds [[id, epoch, fence, ..], ..] and ?2 the message ids, in the same order; ?3 is the topic and ?4 the lanes' owner.
const OWNED: &str = "
  m.id = json_extract(k.value, '$[0]') AND m.message_id = substr(?2, 16 * k.key + 1, 16)
  AND m.epoch = json_extract(k.value, '$[1]') AND EXISTS (
    SELECT 1 FROM outbox_lanes l WHERE l.topic = ?3 AND l.lane = m.lane AND l.owner = ?4
      AND l.fence = json_extract(k.value, '$[2]') AND l.expires_at > {now}
  )";

// 10 is limits::ERRORS_KEPT_MAX. due_at stays: the lane's owner does the waiting, and a row out of its place in the index
// would let a later one of its key pass.
const FAIL: &str = "
UPDATE outbox_messages AS m SET
  epoch = m.epoch % 2147483647 + 1, failures = min(m.failures, 2147483646) + 1,
  attempts = min(m.attempts, 2147483646) + json_extract(k.value, '$[3]'),
  errors = json_insert(
    CASE WHEN json_valid(m.errors) = 0 THEN '[]' WHEN json_type(m.errors) <> 'array' THEN '[]'
      WHEN json_array_length(m.errors) < 10 THEN m.errors ELSE json_remove(m.errors, '$[0]') END,
    '$[#]', json_object('at', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
      'class', json_extract(k.value, '$[4]'), 'error', json_extract(k.value, '$[5]')))
FROM json_each(?1) k WHERE {owned} RETURNING id, message_id";

// CROSS JOIN keeps SQLite from reading the table first: the group is what is short.
const BURY: &str = "
INSERT INTO outbox_dead_letters (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch,
  attempts, failures, errors, created_at, reason)
SELECT m.id, m.message_id, m.topic, m.lane, m.key, m.kind, m.headers, m.payload, m.due_at, m.deliver_at, m.epoch,
  m.attempts, m.failures, m.errors, m.created_at, json_extract(k.value, '$[3]')
FROM json_each(?1) k CROSS JOIN outbox_messages m WHERE {owned} ON CONFLICT (message_id) DO NOTHING";

const REMOVE: &str = "
DELETE FROM outbox_messages WHERE id IN (
  SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m WHERE {owned}
) RETURNING id, message_id";

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

    #[test]
    fn lanes_are_read_by_the_index_and_nothing_as_a_whole() {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        conn.batch_execute(include_str!("../../../migrations/sqlite/0000outbox01_messages/up.sql")).unwrap();
        conn.batch_execute(include_str!("../../../migrations/sqlite/0000outbox02_lanes/up.sql")).unwrap();
        let LaneTexts { first_from, entries, rows, fail, bury, remove, look, write, .. } =
            &LaneTexts::new(&TableNames::default());
        let mut plan = |text: &str| -> Vec<String> {
            let steps: Vec<Step> = sql_query(format!("EXPLAIN QUERY PLAN {text}")).load(&mut conn).unwrap();
            steps.into_iter().map(|step| step.detail).collect()
        };
        for text in [first_from, &entries[1], rows, fail, bury, remove, look, write] {
            let plan = plan(text);
            let scans = |step: &String| {
                step.starts_with("SCAN m") || step.starts_with("SCAN l") || step.starts_with("SCAN outbox_")
            };
            assert!(!plan.iter().any(scans), "{text}\n{plan:#?}");
        }
        let entries = plan(&entries[0]);
        let range = "USING INDEX outbox_messages_due (topic=? AND lane=? AND due_at=? AND id>?)";
        assert!(entries.iter().any(|step| step.contains(range)), "{entries:#?}");
        assert!(!entries.iter().any(|step| step.contains("TEMP B-TREE")), "{entries:#?}");
    }
}
