use std::sync::Arc;

use diesel::sqlite::Sqlite;
use serde_json::json;

use super::bind::Bind;
use super::history_texts::HistoryTexts;
use crate::store::Kept;
use crate::store::statement::Statement;

/// The writes that put rows into the history, from where they still are.
pub(super) fn keeping(texts: &HistoryTexts, keep: &Arc<str>, rows: &[Kept]) -> Vec<Statement<Sqlite>> {
    let group = rows.iter().map(|Kept { key, keep }| json!([key.id, keep.days, u8::from(keep.awaits_processing)]));
    let messages = || Bind::message_ids(rows.iter().map(|row| row.key.message_id));
    let mut writes = vec![Statement::new(keep, [Bind::json(group), messages()])];
    if rows.iter().any(|row| row.keep.awaits_processing) {
        writes.push(Statement::new(&texts.take_marks, [messages()]));
    }
    writes
}
