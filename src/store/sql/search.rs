//! The search for dead letters, and for entries of the audit. Its text is built for each search, because an optional condition
//! (`$1 IS NULL OR topic = $1`) uses no index. Searches are too rare to need a prepared statement.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use super::binds::Binds;
use super::dialect::{Bind, BindOf, Statement};
use super::text::StatementSql;
use crate::message::MessageId;
use crate::store::{AuditCursor, AuditFilter, DeadLetterCursor, DeadLetterFilter, DeadLetterReason, FailedAttempt};

/// A WHERE and an ORDER BY, with their binds.
pub(crate) struct Search<DB: Binds> {
    conditions: Vec<String>,
    binds: Vec<BindOf<DB>>,
    order: &'static str,
}

const DEAD_LETTERS: &str = "topic, dead_at, message_id";
const AUDIT: &str = "began_at DESC, id DESC";

impl<DB: Binds> Search<DB> {
    fn ordered_by(order: &'static str) -> Self {
        Self { conditions: Vec::new(), binds: Vec::new(), order }
    }

    /// The searches that find the dead letters after a position and up to another one, one after the other: a single one would read
    /// those of the topic before it, too.
    pub(crate) fn of_dead_letters(
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        until: Option<&DeadLetterCursor>,
    ) -> Vec<Self> {
        let search = || {
            let mut search = Self::ordered_by(DEAD_LETTERS);
            search.push_range(filter);
            search.push_others(filter);
            search
        };
        match (after, until) {
            (None, None) => vec![search()],
            (Some(after), None) => vec![
                search().at_once(after, Some(after), None),
                search().topic("=", after).died(">", after),
                search().topic(">", after),
            ],
            (None, Some(until)) => vec![
                search().topic("<", until),
                search().topic("=", until).died("<", until),
                search().at_once(until, None, Some(until)),
            ],
            (Some(after), Some(until)) if after.topic != until.topic => vec![
                search().at_once(after, Some(after), None),
                search().topic("=", after).died(">", after),
                search().topic(">", after).topic("<", until),
                search().topic("=", until).died("<", until),
                search().at_once(until, None, Some(until)),
            ],
            (Some(after), Some(until)) if after.dead_at != until.dead_at => vec![
                search().at_once(after, Some(after), None),
                search().topic("=", after).died(">", after).died("<", until),
                search().at_once(until, None, Some(until)),
            ],
            (Some(after), Some(until)) => vec![search().at_once(after, Some(after), Some(until))],
        }
    }

    /// The statement that counts what the filter finds, in groups.
    pub(crate) fn groups(filter: &DeadLetterFilter, sql: &StatementSql, rows_max: usize) -> Statement<DB> {
        let mut search = Self::ordered_by(DEAD_LETTERS);
        search.push_range(filter);
        let range = std::mem::take(&mut search.conditions);
        search.push_others(filter);
        let text = sql
            .first()
            .sql
            .replace("{range}", &joined(&range))
            .replace("{conditions}", &joined(&search.conditions))
            .replace("{last_class}", DB::LAST_CLASS)
            .replace("{rows_max}", &rows_max.to_string());
        Statement::new(&StatementSql::plain(text), search.binds)
    }

    /// What an index serves.
    fn push_range(&mut self, filter: &DeadLetterFilter) {
        if filter.topic.is_some() {
            self.push_texts([("topic", &filter.topic)]);
            self.push_period("dead_at", filter.dead_from.as_ref(), filter.dead_before.as_ref());
        }
    }

    /// What is checked row by row.
    fn push_others(&mut self, filter: &DeadLetterFilter) {
        let DeadLetterFilter { topic, kind, key, reason, class, dead_from, dead_before, is_everything: _ } = filter;
        if topic.is_none() {
            self.push_period("dead_at", dead_from.as_ref(), dead_before.as_ref());
        }
        self.push_texts([("kind", kind), (DB::KEY, key), (DB::LAST_CLASS, class)]);
        if let Some(word) = reason.as_ref().map(DeadLetterReason::as_str) {
            let chars = word.chars().count() + 1;
            let (is_it, begins) = (self.text(&word.into()), self.text(&format!("{word}:").into()));
            // Not LIKE, which would read the word as a pattern.
            self.conditions.push(format!("(reason = {is_it} OR substr(reason, 1, {chars}) = {begins})"));
        }
    }

    /// One message.
    pub(crate) fn one(message_id: MessageId) -> Self {
        let mut search = Self::ordered_by(DEAD_LETTERS);
        let bound = search.message_id(message_id);
        search.conditions.push(format!("message_id = {bound}"));
        search
    }

    /// Entries of the audit, the latest first.
    pub(crate) fn of_audit(filter: &AuditFilter, after: Option<&AuditCursor>) -> Self {
        let mut search = Self::ordered_by(AUDIT);
        let AuditFilter { actor, action, message_id, began_from, began_before } = filter;
        search.push_texts([("actor", actor), ("action", action)]);
        if let Some(message_id) = message_id {
            let bound = search.message_id(*message_id);
            search.conditions.push(format!("message_id = {bound}"));
        }
        search.push_period("began_at", began_from.as_ref(), began_before.as_ref());
        if let Some(AuditCursor { began_at, id }) = after {
            let [until, earlier, then] = [(); 3].map(|()| search.instant(*began_at));
            let id = search.message_id((*id).into());
            let place = format!("began_at <= {until} AND (began_at < {earlier} OR (began_at = {then} AND id < {id}))");
            search.conditions.push(place);
        }
        search
    }

    fn push_texts<const N: usize>(&mut self, texts: [(&str, &Option<Arc<str>>); N]) {
        for (column, text) in texts {
            if let Some(text) = text {
                let bound = self.text(text);
                self.conditions.push(format!("{column} = {bound}"));
            }
        }
    }

    /// From a moment on, and before another one.
    fn push_period(&mut self, column: &str, from: Option<&SystemTime>, before: Option<&SystemTime>) {
        for (comparison, at) in [(">=", from), ("<", before)] {
            if let Some(at) = at {
                let bound = self.instant(*at);
                self.conditions.push(format!("{column} {comparison} {bound}"));
            }
        }
    }

    fn topic(mut self, comparison: &str, cursor: &DeadLetterCursor) -> Self {
        let topic = self.text(&cursor.topic);
        self.conditions.push(format!("topic {comparison} {topic}"));
        self
    }

    fn died(mut self, comparison: &str, cursor: &DeadLetterCursor) -> Self {
        let dead_at = self.instant(cursor.dead_at);
        self.conditions.push(format!("dead_at {comparison} {dead_at}"));
        self
    }

    /// Of the topic and the moment of a position.
    fn at_once(
        self,
        at: &DeadLetterCursor,
        after: Option<&DeadLetterCursor>,
        until: Option<&DeadLetterCursor>,
    ) -> Self {
        let mut search = self.topic("=", at).died("=", at);
        for (comparison, cursor) in [(">", after), ("<=", until)] {
            if let Some(cursor) = cursor {
                let id = search.message_id(cursor.message_id);
                search.conditions.push(format!("message_id {comparison} {id}"));
            }
        }
        search
    }

    /// The statement that begins with `columns`, which includes the FROM.
    pub(crate) fn statement(self, columns: &StatementSql, rows_max: usize) -> Statement<DB> {
        let conditions = joined(&self.conditions);
        let columns = columns.steps().iter().map(|step| step.sql.as_str()).collect::<String>();
        let text = format!("{columns} WHERE {conditions} ORDER BY {} LIMIT {rows_max}", self.order);
        Statement::new(&StatementSql::plain(text), self.binds)
    }

    /// Binds a value; returns its placeholder.
    fn bind(&mut self, bind: BindOf<DB>) -> String {
        self.binds.push(bind);
        DB::SYNTAX.placeholders.of(self.binds.len())
    }

    fn text(&mut self, text: &Arc<str>) -> String {
        self.bind(Bind::text(text))
    }

    fn instant(&mut self, at: SystemTime) -> String {
        DB::instant_placeholder(self.bind(DB::instant_bind(at)))
    }

    fn message_id(&mut self, message_id: MessageId) -> String {
        DB::id_placeholder(self.bind(DB::id(message_id.as_uuid())))
    }
}

fn joined(conditions: &[String]) -> String {
    if conditions.is_empty() { "1 = 1".to_owned() } else { conditions.join(" AND ") }
}

/// The failures in their column; none if somebody else wrote something there.
pub(crate) fn failed_attempts(column: &str) -> Vec<FailedAttempt> {
    let Ok(Value::Array(notes)) = serde_json::from_str(column) else { return Vec::new() };
    let text = |note: &Value, name: &str| note.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    notes
        .iter()
        .map(|note| FailedAttempt {
            at: humantime::parse_rfc3339(&text(note, "at")).ok(),
            class: text(note, "class"),
            error: text(note, "error"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// PostgreSQL and MySQL write microseconds, SQLite milliseconds, an operator anything.
    #[test]
    fn times_of_failures_are_read() {
        let at =
            |time: &str| failed_attempts(&format!(r#"[{{"at": {time}, "class": "record", "error": "no"}}]"#))[0].at;
        let after = |micros: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_micros(micros));
        assert_eq!(at(r#""2024-02-29T23:59:59.250001Z""#), after(1_709_251_199_250_001));
        assert_eq!(at(r#""2024-02-29T23:59:59.250Z""#), after(1_709_251_199_250_000));
        assert_eq!([at(r#""yesterday""#), at("7"), at("null")], [None; 3]);
    }
}
