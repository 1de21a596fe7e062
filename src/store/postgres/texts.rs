use std::borrow::Cow;
use std::sync::Arc;

use crate::naming::TableNames;
use crate::planted::{Mistake, planted};
use crate::store::schema::{IndexNaming, named};

/// The statements, under the names of one outbox.
///
/// Those that write a group outside of a claim lock its rows in the order of their ids first: in the order of the list, two relays that
/// settle the same rows deadlocked in 13 of 40 rounds, and locked first in none.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) confirm: Arc<str>,
    pub(super) remaining: Arc<str>,
    pub(super) claim: Arc<str>,
    pub(super) payloads: Arc<str>,
    pub(super) settle: Arc<str>,
    pub(super) settle_claimed: Arc<str>,
    pub(super) settle_waiting: Arc<str>,
    pub(super) settle_dead: Arc<str>,
    pub(super) hold: Arc<str>,
    pub(super) extend: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) dead: Arc<str>,
    pub(super) look: Arc<str>,
    pub(super) look_with_pauses: Arc<str>,
    pub(super) backlog: Arc<str>,
}

impl Texts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(&tolerant(&mistaken(sql)), names, IndexNaming::ByTable).into();
        Self {
            confirm: text(CONFIRM),
            remaining: text(REMAINING),
            claim: text(CLAIM),
            payloads: text(PAYLOADS),
            settle: text(&SETTLE.replace("{locking}", "SKIP LOCKED")),
            settle_claimed: text(SETTLE_CLAIMED),
            settle_waiting: text(&SETTLE.replace("{locking}", "")),
            settle_dead: text(SETTLE_DEAD),
            hold: text(HOLD),
            extend: text(EXTEND),
            fail: text(FAIL),
            dead: text(DEAD),
            look: text(&LOOK.replace("{is_paused}", "false")),
            look_with_pauses: text(&LOOK.replace("{is_paused}", IS_PAUSED)),
            backlog: text(BACKLOG),
        }
    }
}

/// The statement as it is, but for a mistake that is made on purpose.
fn mistaken(sql: &str) -> Cow<'_, str> {
    let settles = sql.contains("synchronous_commit");
    let (right, wrong) = match sql {
        CLAIM if planted(Mistake::ClaimUnlocked) => ("FOR UPDATE SKIP LOCKED", ""),
        DEAD if planted(Mistake::DeadLetterNotKept) => ("SELECT * FROM gone ON", "SELECT * FROM gone WHERE false ON"),
        _ if settles && planted(Mistake::SettleById) => (" AND m.message_id = k.message_id", ""),
        _ => return Cow::Borrowed(sql),
    };
    Cow::Owned(sql.replace(right, wrong))
}

/// Whether a row's last failure was a refusal. Errors of an earlier life as a dead letter do not count.
pub(super) const IS_SUSPECT: &str = "(failures > 0 AND coalesce(errors -> -1 ->> 'class' = 'record_refused', false))";

/// The errors that another one is added to: at most 10, which is `limits::ERRORS_KEPT_MAX`, with it. What is no array, by somebody's own
/// hand, would fail the statement and with it the whole group: they start anew.
const ERRORS: &str = "CASE WHEN jsonb_typeof(m.errors) <> 'array' THEN '[]'::jsonb \
  WHEN jsonb_array_length(m.errors) < 10 THEN m.errors ELSE m.errors - 0 END";

/// From the highest number it goes on with 1: the sum would be out of range, and fail the whole group.
const NEXT_EPOCH: &str = "m.epoch % 2147483647 + 1";

/// The statement with what makes of a row of any values one that fails no other.
pub(super) fn tolerant(sql: &str) -> String {
    sql.replace("{is_suspect}", IS_SUSPECT).replace("{errors}", ERRORS).replace("{next_epoch}", NEXT_EPOCH)
}

// What is zero, false or empty in nearly every row travels as NULL.
const CONFIRM: &str = "
SELECT id, message_id, NULL::int, nullif(failures, 0), nullif(attempts, 0), NULL::boolean, key, kind, nullif(headers, '[]'), payload,
  created_at, NULL::timestamptz, topic, CASE WHEN isfinite(due_at) THEN due_at - clock_timestamp() END
FROM outbox_messages WHERE id = ANY($1) AND epoch = 0 AND deliver_at IS NULL";

const REMAINING: &str = "SELECT id, message_id FROM outbox_messages WHERE id = ANY($1)";

// One statement reads the rows and looks for the watermark, without a lock, at what others hold; the first row says what it
// found. statement_timestamp(), because clock_timestamp() is no index condition and walks every delayed row.
//
// What is locked begins at that first visible row, and not at $2 again: below it stand only the traces of rows that are gone, and
// while somebody's old snapshot keeps them from vacuum, both walks over them made a claim 3.5 times as large in place of 2.2.
//
// A payload comes along up to $4, so that all of them are within the claim's bytes whatever they are, and a larger one is read
// apart once it is known which fit. A window that sums them up to the bytes, in this statement, costs every claim what few need:
// 2,000 rows of 500 bytes take 16 ms of the server's processor with it and 11 ms without; sorted for it, more than twice.
const CLAIM: &str = "
WITH f AS MATERIALIZED (
  SELECT due_at FROM outbox_messages WHERE topic = $1 AND lane = -1 AND due_at >= $2 ORDER BY due_at LIMIT 1
)
SELECT NULL::bigint AS id, NULL::uuid, NULL::int, NULL::int, NULL::int, NULL::boolean, NULL::text, NULL::text, NULL::text, NULL::bytea,
  statement_timestamp(), NULL::timestamptz, (SELECT due_at FROM f), NULL::tid, NULL::bigint
UNION ALL
SELECT * FROM (
  SELECT id, message_id, nullif(epoch, 0), nullif(failures, 0), nullif(attempts, 0), nullif({is_suspect}, false), key, kind,
    nullif(headers, '[]'), CASE WHEN octet_length(payload) <= $4 THEN payload END, created_at, deliver_at, due_at, ctid,
    CASE WHEN octet_length(payload) > $4 THEN octet_length(payload)::bigint END
  FROM outbox_messages
  WHERE topic = $1 AND lane = -1 AND due_at >= (SELECT due_at FROM f) AND due_at <= statement_timestamp()
  ORDER BY outbox_messages.due_at, outbox_messages.id LIMIT $3 FOR UPDATE SKIP LOCKED
) c";

const PAYLOADS: &str = "SELECT id, message_id, payload FROM outbox_messages WHERE id = ANY($1)";

// A settle that a crash of the database takes back is a duplicate after that crash and nothing else, so it does not
// wait for the disk: 0.7 ms a settle of 10 rows in place of 6 to 7.5, on a virtual disk with fsync.
const SETTLE: &str = "
WITH l AS MATERIALIZED (
  SELECT m.id FROM outbox_messages m JOIN unnest($1, $2) AS k(id, message_id) ON m.id = k.id AND m.message_id = k.message_id
  ORDER BY m.id FOR UPDATE OF m {locking}
)
DELETE FROM outbox_messages m USING l
WHERE m.id = l.id AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off' RETURNING m.id, m.message_id";

// Locked by this very transaction, so that no order of locking is needed, and that each row is where the claim found it: by the
// places it takes a third of what it takes to look each id up. The message ids beside them, because a place says nothing of the
// table's partition, if somebody has made any. And nothing is returned: the count tells whether all are gone.
const SETTLE_CLAIMED: &str = "
DELETE FROM outbox_messages WHERE ctid = ANY($1) AND message_id = ANY($2)";

// By the id as well, under which a message that was sent again died: that dead letter is of the later copy.
const SETTLE_DEAD: &str = "
WITH l AS MATERIALIZED (
  SELECT d.message_id FROM outbox_dead_letters d
  JOIN unnest($1, $2) AS k(id, message_id) ON d.message_id = k.message_id AND d.id = k.id
  ORDER BY d.message_id FOR UPDATE OF d
)
DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id";

const HOLD: &str = "
WITH l AS MATERIALIZED (
  SELECT m.id FROM outbox_messages m JOIN unnest($1, $2) AS k(id, message_id) ON m.id = k.id AND m.message_id = k.message_id
  ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
)
UPDATE outbox_messages m SET due_at = clock_timestamp() + $3 * interval '1 millisecond', epoch = {next_epoch}
FROM l WHERE m.id = l.id RETURNING m.id, m.message_id, m.epoch";

const EXTEND: &str = "
WITH l AS MATERIALIZED (
  SELECT m.id FROM outbox_messages m JOIN unnest($1, $2, $3) AS k(id, message_id, epoch)
    ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
  ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
)
UPDATE outbox_messages m SET due_at = clock_timestamp() + $4 * interval '1 millisecond'
FROM l WHERE m.id = l.id RETURNING m.id, m.message_id";

const FAIL: &str = "
WITH l AS MATERIALIZED (
  SELECT m.id, k.wait_ms, k.spends, k.class, k.error
  FROM outbox_messages m
  JOIN unnest($1, $2, $3, $4, $5, $6, $7) AS k(id, message_id, epoch, wait_ms, spends, class, error)
    ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
  ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
)
UPDATE outbox_messages m SET
  due_at = clock_timestamp() + l.wait_ms * interval '1 millisecond',
  epoch = {next_epoch}, failures = least(m.failures, 2147483646) + 1, attempts = least(m.attempts, 2147483646) + l.spends,
  errors = {errors} || jsonb_build_object(
    'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), 'class', l.class, 'error', l.error)
FROM l WHERE m.id = l.id RETURNING m.id, m.message_id";

// The INSERT meets a message that is dead already where an operator copied one back: the row goes all the same, and one
// such row does not fail its group.
const DEAD: &str = "
WITH l AS MATERIALIZED (
  SELECT m.id, k.reason FROM outbox_messages m JOIN unnest($1, $2, $3, $4) AS k(id, message_id, epoch, reason)
    ON m.id = k.id AND m.message_id = k.message_id AND m.epoch = k.epoch
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

// Bounded on both sides, because what is gone may still be in the index wherever a row was due: below the watermark, and ahead where
// leases of half a minute or cancelled messages were. $2 is where each topic begins, or NULL where $3 says how many ms ago.
const LOOK: &str = "
SELECT t.topic, m.due_at, statement_timestamp(),
  CASE WHEN m.due_at IS NULL OR m.due_at > statement_timestamp() THEN m.due_at ELSE (
    SELECT due_at FROM outbox_messages
    WHERE topic = t.topic AND lane = -1 AND due_at > statement_timestamp()
      AND due_at <= statement_timestamp() + $4 * interval '1 millisecond'
    ORDER BY due_at LIMIT 1
  ) END, {is_paused}, coalesce(t.first, statement_timestamp() - t.past * interval '1 millisecond')
FROM unnest($1, $2, $3) AS t(topic, first, past) LEFT JOIN LATERAL (
  SELECT due_at FROM outbox_messages
  WHERE topic = t.topic AND lane = -1
    AND due_at >= coalesce(t.first, statement_timestamp() - t.past * interval '1 millisecond')
    AND due_at <= statement_timestamp() + $4 * interval '1 millisecond'
  ORDER BY due_at LIMIT 1
) m ON true";

const IS_PAUSED: &str = "EXISTS (SELECT 1 FROM outbox_paused_topics p WHERE p.topic = t.topic)";

// The recursions hop from one topic to the next in the index: DISTINCT would read all of it. ORDER BY keeps each count on
// its index, and so within its LIMIT.
const BACKLOG: &str = "
WITH RECURSIVE live AS (
  (SELECT topic FROM outbox_messages ORDER BY topic LIMIT 1)
  UNION ALL
  SELECT (SELECT m.topic FROM outbox_messages m WHERE m.topic > l.topic ORDER BY m.topic LIMIT 1)
  FROM live l WHERE l.topic IS NOT NULL
), dead AS (
  (SELECT topic FROM outbox_dead_letters ORDER BY topic LIMIT 1)
  UNION ALL
  SELECT (SELECT m.topic FROM outbox_dead_letters m WHERE m.topic > d.topic ORDER BY m.topic LIMIT 1)
  FROM dead d WHERE d.topic IS NOT NULL
)
SELECT t.topic, least(m.live + o.ordered, $1), m.due, m.first_due_at, statement_timestamp(), d.dead
FROM (SELECT topic FROM live UNION SELECT topic FROM dead) t
CROSS JOIN LATERAL (
  SELECT count(*) AS live, count(*) FILTER (WHERE due_at <= statement_timestamp()) AS due, min(due_at) AS first_due_at
  FROM (SELECT due_at FROM outbox_messages WHERE topic = t.topic AND lane = -1 ORDER BY due_at LIMIT $1) r
) m CROSS JOIN LATERAL (
  SELECT count(*) AS ordered FROM (
    SELECT 1 FROM outbox_messages WHERE topic = t.topic AND lane >= 0 ORDER BY lane LIMIT $1
  ) r
) o CROSS JOIN LATERAL (
  SELECT count(*) AS dead FROM (
    SELECT dead_at FROM outbox_dead_letters WHERE topic = t.topic ORDER BY dead_at LIMIT $1
  ) r
) d WHERE t.topic IS NOT NULL";
