use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements by which people look after single messages.
#[derive(Debug)]
pub(super) struct AdminTexts {
    pub(super) find_delayed: Arc<str>,
    pub(super) lock_delayed: Arc<str>,
    pub(super) look_at_delayed: Arc<str>,
    pub(super) delete_one: Arc<str>,
    pub(super) find_waiting: Arc<str>,
    pub(super) lock_waiting: Arc<str>,
    pub(super) look_at_one: Arc<str>,
    pub(super) make_due: Arc<str>,
    pub(super) now: Arc<str>,
    pub(super) count_dead: Arc<str>,
    pub(super) lock_letters: Arc<str>,
    pub(super) dead_keys: Arc<str>,
    pub(super) redrive: Arc<str>,
    pub(super) redrive_to_lanes: Arc<str>,
    pub(super) write_edited: Arc<str>,
    pub(super) pause: Arc<str>,
    pub(super) resume: Arc<str>,
    pub(super) paused: Arc<str>,
}

impl AdminTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(&sql.replace("{back}", BACK), names, IndexNaming::ByTable).into();
        Self {
            find_delayed: text(FIND_DELAYED),
            lock_delayed: text(&format!("{FIND_DELAYED}{LOCK}")),
            look_at_delayed: text(LOOK_AT_DELAYED),
            delete_one: text(DELETE_ONE),
            find_waiting: text(FIND_WAITING),
            lock_waiting: text(&format!("{FIND_WAITING}{LOCK}")),
            look_at_one: text(LOOK_AT_ONE),
            make_due: text(MAKE_DUE),
            now: text(NOW_TEXT),
            count_dead: text(COUNT_DEAD),
            lock_letters: text(LOCK_LETTERS),
            dead_keys: text(DEAD_KEYS),
            redrive: text(REDRIVE),
            redrive_to_lanes: text(REDRIVE_TO_LANES),
            write_edited: text(WRITE_EDITED),
            pause: text(PAUSE),
            resume: text("DELETE FROM outbox_paused_topics WHERE topic = ?"),
            paused: text(PAUSED),
        }
    }
}

/// What a search begins with.
pub(super) const LETTERS: &str = "
SELECT message_id, topic, lane, `key`, kind, headers, payload,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', created_at),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', dead_at), attempts, failures, CAST(errors AS CHAR), reason
FROM outbox_dead_letters";

/// The same without what the letters carry.
pub(super) const MARKS: &str = "SELECT message_id, topic, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', dead_at) FROM outbox_dead_letters";

const NOW_TEXT: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

const LOCK: &str = " FOR UPDATE SKIP LOCKED";

// What a claim holds locked is passed over, and what one held before has another epoch.
const FIND_DELAYED: &str = "
SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
WHERE message_id = UNHEX(?) AND deliver_at IS NOT NULL AND epoch = 0";

const LOOK_AT_DELAYED: &str = "
SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
WHERE message_id = UNHEX(?) AND deliver_at IS NOT NULL";

const DELETE_ONE: &str = "DELETE FROM outbox_messages WHERE id = ?";

// A held row is due within a lease, and so is one that will be tried again soon: nothing tells the two apart, and the first
// must not be touched. At epoch 0 it is the relay of its process that has it, for as long as its topic says.
const FIND_WAITING: &str = "
SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
WHERE message_id = UNHEX(?) AND lane = -1 AND due_at > UTC_TIMESTAMP(6) AND
  IF(epoch = 0, deliver_at IS NOT NULL, due_at > TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)))";

const LOOK_AT_ONE: &str = "
SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
WHERE message_id = UNHEX(?) AND lane = -1";

const MAKE_DUE: &str =
    "UPDATE outbox_messages SET due_at = UTC_TIMESTAMP(6), epoch = epoch % 2147483647 + 1 WHERE id = ?";

const COUNT_DEAD: &str = "
SELECT topic, SUBSTRING_INDEX(reason, ':', 1) AS word, COUNT(*) FROM outbox_dead_letters
GROUP BY topic, word ORDER BY topic, word";

const LOCK_LETTERS: &str = "
SELECT CAST(d.id AS SIGNED), d.message_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k
STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id)
FOR UPDATE SKIP LOCKED";

const DEAD_KEYS: &str = "
SELECT d.message_id, d.topic, d.lane, d.`key`
FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k
STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id)";

const REDRIVE: &str = "
INSERT INTO outbox_messages
  (id, message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
SELECT d.id, d.message_id, d.topic, -1, d.`key`, d.kind, d.headers, d.payload, UTC_TIMESTAMP(6), d.deliver_at, d.epoch % 2147483647 + 1,
  d.errors, d.created_at
FROM {back}
STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) WHERE k.lane < 0";

const REDRIVE_TO_LANES: &str = "
INSERT INTO outbox_messages
  (message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
SELECT d.message_id, d.topic, k.lane, d.`key`, d.kind, d.headers, d.payload, TIMESTAMP'1970-01-01 00:00:00', d.deliver_at,
  d.epoch % 2147483647 + 1, d.errors, d.created_at
FROM {back}
STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) WHERE k.lane >= 0
ORDER BY d.id";

/// What comes back, and to which lanes.
pub(super) const BACK: &str =
    "JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]', lane int PATH '$[1]')) k";

const PAUSE: &str = "
INSERT INTO outbox_paused_topics (topic, paused_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE topic = topic";

const PAUSED: &str = "
SELECT topic, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', paused_at) FROM outbox_paused_topics ORDER BY topic";

const WRITE_EDITED: &str = "
INSERT INTO outbox_messages (message_id, topic, lane, `key`, kind, headers, payload, due_at)
VALUES (UNHEX(?), ?, ?, ?, ?, ?, ?, IF(? >= 0, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))";
