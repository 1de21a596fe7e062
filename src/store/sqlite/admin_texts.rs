use std::sync::Arc;

use super::texts::NOW;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements by which people look after single messages.
#[derive(Debug)]
pub(super) struct AdminTexts {
    pub(super) cancel: Arc<str>,
    pub(super) look_at_delayed: Arc<str>,
    pub(super) send_now: Arc<str>,
    pub(super) look_at_one: Arc<str>,
    pub(super) now: Arc<str>,
    pub(super) count_dead: Arc<str>,
    pub(super) dead_keys: Arc<str>,
    pub(super) redrive: Arc<str>,
    pub(super) redrive_to_lanes: Arc<str>,
    pub(super) remove_letters: Arc<str>,
    pub(super) write_edited: Arc<str>,
    pub(super) pause: Arc<str>,
    pub(super) resume: Arc<str>,
    pub(super) paused: Arc<str>,
}

impl AdminTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| {
            let sql = sql.replace("{now}", NOW).replace("{letters}", LETTERS_OF);
            named(&sql, names, IndexNaming::ByIndex).into()
        };
        Self {
            cancel: text(CANCEL),
            look_at_delayed: text(LOOK_AT_DELAYED),
            send_now: text(SEND_NOW),
            look_at_one: text(LOOK_AT_ONE),
            now: text(NOW_TEXT),
            count_dead: text(COUNT_DEAD),
            dead_keys: text(DEAD_KEYS),
            redrive: text(REDRIVE),
            redrive_to_lanes: text(REDRIVE_TO_LANES),
            remove_letters: text(REMOVE_LETTERS),
            write_edited: text(WRITE_EDITED),
            pause: text(PAUSE),
            resume: text("DELETE FROM outbox_paused_topics WHERE topic = ?1"),
            paused: text("SELECT topic, paused_at FROM outbox_paused_topics ORDER BY topic"),
        }
    }
}

/// What a search begins with.
pub(super) const LETTERS: &str = "
SELECT message_id, topic, lane, key, kind, headers, payload, created_at, dead_at, attempts, failures, errors, reason
FROM outbox_dead_letters";

/// The same without what the letters carry.
pub(super) const MARKS: &str = "SELECT message_id, topic, dead_at FROM outbox_dead_letters";

const NOW_TEXT: &str = "SELECT {now}";

/// Which letters a group of message ids names, one id behind the other.
const LETTERS_OF: &str = "
WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1))
SELECT substr(?1, place, 16) FROM k";

// What a claim has leased has another epoch.
const CANCEL: &str =
    "DELETE FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL AND epoch = 0 RETURNING topic";

const LOOK_AT_DELAYED: &str = "SELECT topic FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL";

// A held row is due within a lease, and so is one that will be tried again soon: nothing tells the two apart, and the first
// must not be touched. At epoch 0 it is the relay of its process that has it, for as long as its topic says. Without an index on
// message_id this reads the live table, which is what people wait for and not relays.
const SEND_NOW: &str = "
UPDATE outbox_messages SET due_at = {now}, epoch = epoch % 2147483647 + 1
WHERE message_id = ?1 AND lane = -1 AND due_at > {now} AND CASE epoch WHEN 0 THEN deliver_at IS NOT NULL ELSE due_at > {now} + ?2 END
RETURNING topic";

const LOOK_AT_ONE: &str = "SELECT topic FROM outbox_messages WHERE message_id = ?1 AND lane = -1";

const COUNT_DEAD: &str = "
SELECT topic, substr(reason, 1, instr(reason || ':', ':') - 1) AS word, count(*) FROM outbox_dead_letters
GROUP BY topic, word ORDER BY topic, word";

const DEAD_KEYS: &str = "SELECT message_id, topic, lane, key FROM outbox_dead_letters WHERE message_id IN ({letters})";

// ?1 holds the message ids and ?2 the lanes, in the same order.
const REDRIVE: &str = "
INSERT INTO outbox_messages
  (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
SELECT d.id, d.message_id, d.topic, -1, d.key, d.kind, d.headers, d.payload, {now}, d.deliver_at, d.epoch % 2147483647 + 1, d.errors, d.created_at
FROM json_each(?2) k CROSS JOIN outbox_dead_letters d ON d.message_id = substr(?1, 16 * k.key + 1, 16) WHERE k.value < 0";

const REDRIVE_TO_LANES: &str = "
INSERT INTO outbox_messages
  (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
SELECT d.message_id, d.topic, k.value, d.key, d.kind, d.headers, d.payload, 0, d.deliver_at, d.epoch % 2147483647 + 1, d.errors, d.created_at
FROM json_each(?2) k CROSS JOIN outbox_dead_letters d ON d.message_id = substr(?1, 16 * k.key + 1, 16) WHERE k.value >= 0
ORDER BY d.id";

const REMOVE_LETTERS: &str = "DELETE FROM outbox_dead_letters WHERE message_id IN ({letters}) RETURNING message_id";

const PAUSE: &str =
    "INSERT INTO outbox_paused_topics (topic, paused_at) VALUES (?1, {now}) ON CONFLICT (topic) DO NOTHING";

const WRITE_EDITED: &str = "
INSERT INTO outbox_messages (message_id, topic, lane, key, kind, headers, payload, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?3 >= 0 THEN 0 ELSE {now} END)";
