use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// The statements of half messages, under the names of one outbox.
#[derive(Debug)]
pub(super) struct HalfTexts {
    pub(super) marked: Arc<str>,
    pub(super) void: Arc<str>,
    pub(super) read: Arc<str>,
    pub(super) forget: Arc<str>,
    pub(super) prune: Arc<str>,
}

impl HalfTexts {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByTable).into();
        Self {
            marked: text("SELECT message_id FROM outbox_half_messages WHERE message_id = ANY($1) AND NOT is_void"),
            // Not READ first: between it and the INSERT the transaction could commit.
            void: text(
                "INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES ($1, $2, true) ON CONFLICT DO NOTHING",
            ),
            read: text("SELECT is_void FROM outbox_half_messages WHERE message_id = $1"),
            forget: text("DELETE FROM outbox_half_messages WHERE message_id = ANY($1)"),
            prune: text(
                "DELETE FROM outbox_half_messages WHERE message_id IN (SELECT message_id FROM outbox_half_messages \
                 WHERE created_at < statement_timestamp() - $1 * interval '1 millisecond' \
                 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
            ),
        }
    }
}
