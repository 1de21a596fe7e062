use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements by which people look after single messages.
#[derive(Debug)]
pub(super) struct AdminTexts {
    pub(super) cancel: Arc<str>,
    pub(super) look_at_delayed: Arc<str>,
}

impl AdminTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByIndex).into();
        Self { cancel: text(CANCEL), look_at_delayed: text(LOOK_AT_DELAYED) }
    }
}

// What a claim has leased has another epoch.
const CANCEL: &str =
    "DELETE FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL AND epoch = 0 RETURNING topic";

const LOOK_AT_DELAYED: &str = "SELECT topic FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL";
