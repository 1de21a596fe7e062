use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements by which people look after single messages.
#[derive(Debug)]
pub(super) struct AdminTexts {
    pub(super) cancel: Arc<str>,
}

impl AdminTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByTable).into();
        Self { cancel: text(CANCEL) }
    }
}

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
