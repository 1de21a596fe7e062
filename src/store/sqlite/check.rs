use diesel::sqlite::Sqlite;

use super::SqliteStore;
use crate::store::pool::ConnectionPool;
use crate::store::schema::check_version;
use crate::store::sql::dialect::Bind;
use crate::store::sql::text::StatementSql;
use crate::store::{StoreError, StoreWarning};

/// What `PRAGMA synchronous` answers.
const OFF: i64 = 0;
const NORMAL: i64 = 1;

impl<P: ConnectionPool<Sqlite>> SqliteStore<P> {
    pub(super) async fn check_database(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.check_named(&["messages", "dead_letters"]).await?;
        let schema = self.schema();
        let setting = |setting: &str| StatementSql::plain(format!("PRAGMA {schema}{setting}"));
        let synchronous: Vec<i64> = self.read(&setting("synchronous"), []).await?;
        let journal_mode: Vec<String> = self.read(&setting("journal_mode"), []).await?;
        let is_wal = journal_mode.iter().any(|mode| mode == "wal");
        Ok(synchronous.into_iter().filter_map(|synchronous| warning(synchronous, is_wal)).collect())
    }

    /// Checks that these tables exist and have this version.
    pub(super) async fn check_named(&self, tables: &[&str]) -> Result<(), StoreError> {
        let schema = self.schema();
        // The text of CREATE TABLE.
        let text = format!("SELECT sql FROM {schema}sqlite_master WHERE type = 'table' AND name = ?1");
        let text = StatementSql::plain(text);
        for table in tables {
            let found: Vec<String> = self.read(&text, [Bind::Text(self.names.unqualified(table).into())]).await?;
            let text = found.first().map(String::as_str);
            check_version(self.names.qualified(table), text.is_some(), text).map_err(StoreError::Schema)?;
        }
        Ok(())
    }

    fn schema(&self) -> String {
        self.names.schema_name().map(|schema| format!("{schema}.")).unwrap_or_default()
    }
}

/// Both settings belong to a connection. What the pool sets on ours, the application presumably sets on its own.
fn warning(synchronous: i64, is_wal: bool) -> Option<StoreWarning> {
    match synchronous {
        OFF => Some(StoreWarning::NotDurable { setting: "synchronous = OFF" }),
        NORMAL if is_wal => Some(StoreWarning::NotDurable { setting: "synchronous = NORMAL with journal_mode = WAL" }),
        _ => None,
    }
}
