use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements of the history, under the names of one outbox.
#[derive(Debug)]
pub(super) struct HistoryTexts {
    pub(super) settle: Arc<str>,
    pub(super) settle_waiting: Arc<str>,
    pub(super) settle_claimed: Arc<str>,
    pub(super) settle_dead: Arc<str>,
    pub(super) missing_days: Arc<str>,
    pub(super) fallen_day: Arc<str>,
    pub(super) prune: Arc<str>,
    pub(super) prune_dead: Arc<str>,
    pub(super) fold_marks: Arc<str>,
    pub(super) sent: Arc<str>,
    pub(super) sent_of_key: Arc<str>,
    pub(super) unprocessed: Arc<str>,
    pub(super) unprocessed_marks: Arc<str>,
    pub(super) count: Arc<str>,
    pub(super) mark: Arc<str>,
    pub(super) sent_keys: Arc<str>,
    pub(super) send_again: Arc<str>,
}

impl HistoryTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| {
            let sql = sql.replace("{keep}", KEEP).replace("{row}", ROW).replace("{sent}", SENT).replace("{page}", PAGE);
            named(&sql, names, IndexNaming::ByTable).into()
        };
        Self {
            settle: text(&SETTLE.replace("{locking}", "SKIP LOCKED")),
            settle_waiting: text(&SETTLE.replace("{locking}", "")),
            settle_claimed: text(SETTLE_CLAIMED),
            settle_dead: text(SETTLE_DEAD),
            missing_days: text(MISSING_DAYS),
            fallen_day: text(FALLEN_DAY),
            prune: text(PRUNE),
            prune_dead: text(PRUNE_DEAD),
            fold_marks: text(FOLD_MARKS),
            sent: text(SENT_ONE),
            sent_of_key: text(SENT_OF_KEY),
            unprocessed: text(UNPROCESSED),
            unprocessed_marks: text(&UNPROCESSED.replace("{sent}", SENT_MARK)),
            count: text(COUNT),
            mark: text(MARK),
            sent_keys: text(SENT_KEYS),
            send_again: text(SEND_AGAIN),
        }
    }
}

const ROW: &str = "id, message_id, topic, lane, key, kind, headers, payload, deliver_at, epoch, attempts, failures, errors, created_at";

// A mark that came before its message goes with the settle. One that is committed while this statement runs is not seen by it,
// and stays: every reader looks for those, too.
const KEEP: &str = "marked (marked_id, marked_at) AS (
  DELETE FROM outbox_processed_marks p USING gone g WHERE g.awaits = 1 AND p.message_id = g.message_id
  RETURNING p.message_id, p.marked_at
), kept AS (
  INSERT INTO outbox_history ({row}, sent_at, falls_on, awaits_processing, processed_at)
  SELECT {row}, clock_timestamp(), (clock_timestamp() AT TIME ZONE 'UTC')::date + days + 1, awaits = 1, marked_at
  FROM gone LEFT JOIN marked ON marked_id = message_id ON CONFLICT DO NOTHING
)
SELECT id, message_id FROM gone";

// As the settle that deletes.
const SETTLE: &str = "
WITH l AS MATERIALIZED (
  SELECT m.id, k.days, k.awaits
  FROM outbox_messages m JOIN unnest($1, $2, $3, $4) AS k(id, message_id, days, awaits)
    ON m.id = k.id AND m.message_id = k.message_id
  ORDER BY m.id FOR UPDATE OF m {locking}
), gone AS (
  DELETE FROM outbox_messages m USING l
  WHERE m.id = l.id AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
  RETURNING m.*, l.days, l.awaits
), {keep}";

const SETTLE_CLAIMED: &str = "
WITH gone AS (
  DELETE FROM outbox_messages m WHERE ctid = ANY($1) AND message_id = ANY($2) RETURNING m.*, $3::int AS days, $4::int AS awaits
), {keep}";

const SETTLE_DEAD: &str = "
WITH l AS MATERIALIZED (
  SELECT d.message_id, k.days, k.awaits
  FROM outbox_dead_letters d JOIN unnest($1, $2, $3, $4) AS k(id, message_id, days, awaits)
    ON d.message_id = k.message_id AND d.id = k.id
  ORDER BY d.message_id FOR UPDATE OF d
), gone AS (
  DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id RETURNING d.*, l.days, l.awaits
), {keep}";

// $1 is the history's name, $2 numbers of days, $3 how many days ahead. A day of which rows are in the default partition is left to
// that: it cannot be attached, and one that fails would take the others with it.
const MISSING_DAYS: &str = "
SELECT to_char(day, 'YYYYMMDD'), day::text, (day + 1)::text
FROM (
  SELECT DISTINCT (statement_timestamp() AT TIME ZONE 'UTC')::date + days + 1 + ahead AS day
  FROM unnest($2) AS days CROSS JOIN generate_series(0, $3::int) AS ahead
) d WHERE to_regclass($1 || '_' || to_char(day, 'YYYYMMDD')) IS NULL
  AND NOT EXISTS (SELECT 1 FROM outbox_history_default h WHERE h.falls_on = d.day)
ORDER BY day";

// $2 is what the names of day partitions begin with.
const FALLEN_DAY: &str = "
SELECT right(c.relname, 8), greatest(c.reltuples, 0)::bigint
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass($1) AND starts_with(c.relname, $2) AND substr(c.relname, length($2) + 1) ~ '^[0-9]{8}$'
  AND right(c.relname, 8) <= to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')
ORDER BY c.relname LIMIT 1";

// What lies in the default partition, and no day partition that could fall as a whole.
const PRUNE: &str = "
DELETE FROM outbox_history_default WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM outbox_history_default WHERE falls_on <= (statement_timestamp() AT TIME ZONE 'UTC')::date
  ORDER BY falls_on LIMIT $1 FOR UPDATE SKIP LOCKED
))";

const PRUNE_DEAD: &str = "
WITH l AS MATERIALIZED (
  SELECT message_id FROM outbox_dead_letters
  WHERE topic = $1 AND dead_at < statement_timestamp() - $2 * interval '1 millisecond'
  ORDER BY dead_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id";

// By an array, of which the planner expects few: joined with as many as LIMIT allows it reads the whole history.
const FOLD_MARKS: &str = "
WITH l AS MATERIALIZED (
  SELECT message_id, marked_at FROM outbox_processed_marks
  WHERE marked_at < statement_timestamp() - $1 * interval '1 millisecond' ORDER BY marked_at LIMIT $2 FOR UPDATE SKIP LOCKED
), processed AS (
  UPDATE outbox_history h SET processed_at = (SELECT l.marked_at FROM l WHERE l.message_id = h.message_id)
  WHERE h.message_id = ANY (ARRAY (SELECT message_id FROM l)) AND h.processed_at IS NULL
)
DELETE FROM outbox_processed_marks p USING l WHERE p.message_id = l.message_id";

const SENT: &str = "
SELECT h.message_id, h.topic, h.lane, h.key, h.kind, h.headers, h.payload, h.created_at, h.sent_at, h.attempts, h.failures,
  h.awaits_processing::int::bigint, (coalesce(h.processed_at, p.marked_at) IS NOT NULL)::int::bigint,
  coalesce(h.processed_at, p.marked_at, h.sent_at)
FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";

const SENT_MARK: &str = "
SELECT h.message_id, h.sent_at
FROM outbox_history h LEFT JOIN outbox_processed_marks p ON p.message_id = h.message_id";

const SENT_ONE: &str = "{sent} WHERE h.message_id = $1 ORDER BY h.sent_at DESC LIMIT 1";

const PAGE: &str = "ORDER BY h.sent_at, h.message_id LIMIT $5";

const SENT_OF_KEY: &str = "{sent} WHERE h.topic = $1 AND h.key = $2 AND (h.sent_at, h.message_id) > ($3, $4) {page}";

const UNPROCESSED: &str = "{sent} WHERE h.topic = $1 AND h.awaits_processing AND h.processed_at IS NULL AND p.message_id IS NULL
  AND h.sent_at < statement_timestamp() - $2 * interval '1 millisecond' AND (h.sent_at, h.message_id) > ($3, $4) {page}";

const COUNT: &str = "
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_history WHERE topic = $1 LIMIT $2) r), (
  SELECT count(*) FROM (
    SELECT 1 FROM outbox_history h WHERE h.topic = $1 AND h.awaits_processing AND h.processed_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id) LIMIT $2
  ) r
)";

// Three ways to find a message: marked from now on, marked before, or not here yet. A settle that commits meanwhile is not seen:
// then the mark waits beside its message, where every reader looks.
const MARK: &str = "
WITH k AS MATERIALIZED (
  SELECT DISTINCT message_id FROM unnest($1) AS k(message_id)
), l AS MATERIALIZED (
  SELECT h.message_id, h.falls_on, h.processed_at IS NOT NULL OR EXISTS (
    SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id
  ) AS was FROM outbox_history h WHERE h.message_id = ANY($1) ORDER BY h.message_id, h.falls_on FOR UPDATE OF h
), marked AS (
  UPDATE outbox_history h SET processed_at = clock_timestamp() FROM l
  WHERE h.message_id = l.message_id AND h.falls_on = l.falls_on AND NOT l.was
), ahead AS (
  INSERT INTO outbox_processed_marks (message_id)
  SELECT message_id FROM k WHERE message_id NOT IN (SELECT message_id FROM l) ORDER BY message_id
  ON CONFLICT DO NOTHING
)
SELECT k.message_id, (SELECT CASE WHEN bool_or(was) THEN 1 WHEN count(*) > 0 THEN 0 ELSE 2 END
  FROM l WHERE l.message_id = k.message_id)::bigint FROM k";

const SENT_KEYS: &str = "SELECT message_id, topic, lane, key FROM outbox_history WHERE message_id = ANY($1)";

// Under a new id in a lane or not: the settle of the copy before may still come, and would take this one for its own.
const SEND_AGAIN: &str = "
WITH l AS MATERIALIZED (
  SELECT h.message_id, h.falls_on FROM outbox_history h
  WHERE h.message_id = ANY($1) AND h.processed_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM outbox_processed_marks p WHERE p.message_id = h.message_id)
  ORDER BY h.message_id FOR UPDATE OF h SKIP LOCKED
), gone AS (
  DELETE FROM outbox_history h USING l WHERE h.message_id = l.message_id AND h.falls_on = l.falls_on RETURNING h.*
), back AS (
  INSERT INTO outbox_messages
    (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
  SELECT gone.message_id, topic, k.to_lane, key, kind, headers, payload,
    CASE WHEN k.to_lane >= 0 THEN timestamptz 'epoch' ELSE clock_timestamp() END, deliver_at, epoch % 2147483647 + 1, errors, created_at
  FROM gone JOIN unnest($1, $2) AS k(message_id, to_lane) ON k.message_id = gone.message_id ORDER BY gone.id
)
SELECT message_id FROM gone";
