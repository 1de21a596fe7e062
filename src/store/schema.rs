//! The names of the tables in statements and migrations, and the comment with their version.

use super::SchemaProblem;
use crate::naming::TableNames;

/// The version of the tables that this release works with.
pub(crate) const VERSION: u32 = 1;

/// What the comment of a table says before the version.
const VERSION_PREFIX: &str = "diesel-outbox schema ";

/// Every table and sequence that a migration creates, without its prefix.
const TABLES: [&str; 18] = [
    "messages",
    "dead_letters",
    "lanes",
    "nodes",
    "key_locks",
    "half_messages",
    "paused_topics",
    "history",
    "history_default",
    "processed_marks",
    "audit",
    "inbox",
    "inbox_default",
    "inbox_undated",
    "inbox_consumers",
    "inbox_start",
    "consumer_offsets",
    "parked",
];

/// The tables that carry a version, and the migration that creates each, in the order of the migrations.
pub(crate) const CHECKED_TABLES: [(&str, &str); 9] = [
    ("messages", "0000outbox01_messages"),
    ("dead_letters", "0000outbox01_messages"),
    ("lanes", "0000outbox02_lanes"),
    ("nodes", "0000outbox02_lanes"),
    ("half_messages", "0000outbox03_half_messages"),
    ("paused_topics", "0000outbox04_paused_topics"),
    ("history", "0000outbox05_history"),
    ("processed_marks", "0000outbox05_history"),
    ("audit", "0000outbox06_audit"),
];

/// The version in a table's comment, or in the text of its CREATE TABLE.
fn version_in(text: &str) -> Option<u32> {
    let (_, behind) = text.split_once(VERSION_PREFIX)?;
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].parse().ok()
}

/// Whether a table exists and its comment has this version.
pub(crate) fn check_version(table: String, is_there: bool, comment: Option<&str>) -> Result<(), SchemaProblem> {
    if !is_there {
        return Err(SchemaProblem::Missing { table });
    }
    match comment.and_then(version_in) {
        Some(VERSION) => Ok(()),
        found => Err(SchemaProblem::Version { table, found, needed: VERSION }),
    }
}

/// Where CREATE INDEX names the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexNaming {
    /// Before the table: PostgreSQL and MySQL.
    ByTable,
    /// Before the index: SQLite.
    ByIndex,
}

/// Renames the tables and indexes of `sql` from the default names to `names`.
pub(crate) fn rename_tables(sql: &str, names: &TableNames, indexes: IndexNaming) -> String {
    let mut renamed = String::with_capacity(sql.len() + 64);
    let mut last_word = "";
    let mut rest = sql;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let in_word = rest.starts_with(is_word);
        let end = rest.find(|c| is_word(c) != in_word).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(end);
        match token.strip_prefix("outbox_") {
            Some(name) => renamed.push_str(&rename_table(name, last_word, names, indexes)),
            None => renamed.push_str(token),
        }
        if in_word {
            last_word = token;
        }
        rest = behind;
    }
    renamed
}

fn rename_table(name: &str, last_word: &str, names: &TableNames, indexes: IndexNaming) -> String {
    let is_table = TABLES.contains(&name);
    let with_schema = match indexes {
        IndexNaming::ByTable => is_table,
        IndexNaming::ByIndex => last_word == "INDEX" || (is_table && last_word != "ON"),
    };
    match names.schema_name() {
        Some(schema) if with_schema => format!("{schema}.{}", names.unqualified(name)),
        _ => names.unqualified(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_shop() -> TableNames {
        TableNames::default().schema("events").and_then(|names| names.prefix("shop_")).unwrap()
    }

    #[test]
    fn default_names_change_nothing() {
        let sql = "SELECT m.key FROM outbox_messages m; -- outbox_dead_letters\n";
        assert_eq!(rename_tables(sql, &TableNames::default(), IndexNaming::ByTable), sql);
    }

    #[test]
    fn tables_get_the_schema_and_indexes_live_beside_them() {
        let sql = "CREATE INDEX outbox_messages_due ON outbox_messages (topic);DROP TABLE outbox_dead_letters";
        let expected =
            "CREATE INDEX shop_messages_due ON events.shop_messages (topic);DROP TABLE events.shop_dead_letters";
        assert_eq!(rename_tables(sql, &events_shop(), IndexNaming::ByTable), expected);
    }

    #[test]
    fn sqlite_wants_the_schema_before_the_index() {
        let sql = "CREATE INDEX outbox_messages_due ON outbox_messages (topic);DELETE FROM outbox_messages";
        let expected =
            "CREATE INDEX events.shop_messages_due ON shop_messages (topic);DELETE FROM events.shop_messages";
        assert_eq!(rename_tables(sql, &events_shop(), IndexNaming::ByIndex), expected);
    }

    #[test]
    fn the_version_is_read_from_between_other_text() {
        assert_eq!(version_in("/* diesel-outbox schema 12: mark */"), Some(12));
        assert_eq!(version_in("diesel-outbox schema x"), None);
        assert_eq!(version_in("our own table"), None);
    }
}
