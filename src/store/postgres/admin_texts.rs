use std::borrow::Cow;
use std::sync::Arc;

use crate::naming::TableNames;
use crate::planted::{Mistake, planted};
use crate::store::schema::{IndexNaming, named};

/// The statements by which people look after single messages.
#[derive(Debug)]
pub(super) struct AdminTexts {
    pub(super) cancel: Arc<str>,
    pub(super) send_now: Arc<str>,
    pub(super) now: Arc<str>,
    pub(super) count_dead: Arc<str>,
    pub(super) dead_keys: Arc<str>,
    pub(super) redrive: Arc<str>,
    pub(super) purge: Arc<str>,
    pub(super) replace: Arc<str>,
    pub(super) pause: Arc<str>,
    pub(super) resume: Arc<str>,
    pub(super) paused: Arc<str>,
}

impl AdminTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByTable).into();
        Self {
            cancel: text(CANCEL),
            send_now: text(SEND_NOW),
            now: text(NOW_TEXT),
            count_dead: text(COUNT_DEAD),
            dead_keys: text(DEAD_KEYS),
            redrive: text(&REDRIVE.replace("{back}", &back())),
            purge: text(PURGE),
            replace: text(REPLACE),
            pause: text("INSERT INTO outbox_paused_topics (topic) VALUES ($1) ON CONFLICT (topic) DO NOTHING"),
            resume: text("DELETE FROM outbox_paused_topics WHERE topic = $1"),
            paused: text("SELECT topic, paused_at FROM outbox_paused_topics ORDER BY topic"),
        }
    }
}

/// What puts rows back, but for a mistake that is made on purpose.
fn back() -> Cow<'static, str> {
    match planted(Mistake::RedriveLosesRow) {
        true => Cow::Owned(BACK.replace("to_lane < 0", "false")),
        false => Cow::Borrowed(BACK),
    }
}

/// What a search begins with.
pub(super) const LETTERS: &str = "
SELECT message_id, topic, lane, key, kind, headers, payload, created_at, dead_at, attempts, failures, errors::text, reason
FROM outbox_dead_letters";

/// The same without what the letters carry.
pub(super) const MARKS: &str = "SELECT message_id, topic, dead_at FROM outbox_dead_letters";

const PURGE: &str = "
WITH l AS MATERIALIZED (
  SELECT message_id FROM outbox_dead_letters WHERE message_id = ANY($1) ORDER BY message_id FOR UPDATE
)
DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id";

const NOW_TEXT: &str = "SELECT clock_timestamp()";

// What a claim holds locked is passed over, and what one held before has another epoch. All parts see the table as it was
// before the statement.
const CANCEL: &str = "
WITH l AS MATERIALIZED (
  SELECT id FROM outbox_messages WHERE message_id = $1 AND deliver_at IS NOT NULL AND epoch = 0 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM outbox_messages m USING l WHERE m.id = l.id RETURNING m.topic
)
SELECT (SELECT topic FROM gone),
  EXISTS (SELECT 1 FROM outbox_messages WHERE message_id = $1 AND deliver_at IS NOT NULL)";

// A held row is due within a lease, and so is one that will be tried again soon: nothing tells the two apart, and the first
// must not be touched. At epoch 0 it is the relay of its process that has it, for as long as its topic says. Without an index on
// message_id this reads the live table, which is what people wait for and not relays.
const SEND_NOW: &str = "
WITH l AS MATERIALIZED (
  SELECT id FROM outbox_messages WHERE message_id = $1 AND lane = -1 AND due_at > statement_timestamp() AND
    CASE epoch WHEN 0 THEN deliver_at IS NOT NULL ELSE due_at > statement_timestamp() + $2 * interval '1 millisecond' END
  FOR UPDATE SKIP LOCKED
), due AS (
  UPDATE outbox_messages m SET due_at = clock_timestamp(), epoch = m.epoch % 2147483647 + 1 FROM l WHERE m.id = l.id RETURNING m.topic
)
SELECT (SELECT topic FROM due), EXISTS (SELECT 1 FROM outbox_messages WHERE message_id = $1 AND lane = -1)";

const COUNT_DEAD: &str = "
SELECT topic, split_part(reason, ':', 1) AS word, count(*) FROM outbox_dead_letters GROUP BY topic, word ORDER BY topic, word";

const DEAD_KEYS: &str = "SELECT message_id, topic, lane, key FROM outbox_dead_letters WHERE message_id = ANY($1)";

const REDRIVE: &str = "
WITH l AS MATERIALIZED (
  SELECT message_id FROM outbox_dead_letters WHERE message_id = ANY($1) ORDER BY message_id FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id RETURNING d.*
), {back}";

// Puts what is `gone` from elsewhere back to the live messages: $2 says to which lanes, behind everything that is there. What is
// in no lane keeps its id: an acknowledgement still under way is of this very message, and settles it.
const BACK: &str = "back AS (
  SELECT gone.*, k.to_lane FROM gone JOIN unnest($1, $2) AS k(message_id, to_lane) ON k.message_id = gone.message_id
), unordered AS (
  INSERT INTO outbox_messages
    (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
  SELECT id, message_id, topic, -1, key, kind, headers, payload, clock_timestamp(), deliver_at, epoch % 2147483647 + 1, errors, created_at
  FROM back WHERE to_lane < 0
), ordered AS (
  INSERT INTO outbox_messages
    (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
  SELECT message_id, topic, to_lane, key, kind, headers, payload, timestamptz 'epoch', deliver_at, epoch % 2147483647 + 1, errors, created_at
  FROM back WHERE to_lane >= 0 ORDER BY back.id
)
SELECT message_id FROM gone";

const REPLACE: &str = "
WITH l AS MATERIALIZED (
  SELECT message_id FROM outbox_dead_letters WHERE message_id = $1 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id RETURNING d.message_id
)
INSERT INTO outbox_messages (message_id, topic, lane, key, kind, headers, payload, due_at)
SELECT $2, $3, $4::smallint, $5, $6, $7, $8, CASE WHEN $4 >= 0 THEN timestamptz 'epoch' ELSE clock_timestamp() END FROM gone";
