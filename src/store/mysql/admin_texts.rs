use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements by which people look after single messages.
#[derive(Debug)]
pub(super) struct AdminTexts {
    pub(super) lock_delayed: Arc<str>,
    pub(super) look_at_delayed: Arc<str>,
    pub(super) delete_one: Arc<str>,
}

impl AdminTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByTable).into();
        Self { lock_delayed: text(LOCK_DELAYED), look_at_delayed: text(LOOK_AT_DELAYED), delete_one: text(DELETE_ONE) }
    }
}

// What a claim holds locked is passed over, and what one held before has another epoch.
const LOCK_DELAYED: &str = "
SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
WHERE message_id = UNHEX(?) AND deliver_at IS NOT NULL AND epoch = 0 FOR UPDATE SKIP LOCKED";

const LOOK_AT_DELAYED: &str = "
SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
WHERE message_id = UNHEX(?) AND deliver_at IS NOT NULL";

const DELETE_ONE: &str = "DELETE FROM outbox_messages WHERE id = ?";
