use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::bind::Bind;
use super::rows::SqlRow;
use crate::store::schema::check_mark;
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::{StoreError, StoreWarning};

/// What `PRAGMA synchronous` answers.
const OFF: i64 = 0;
const NORMAL: i64 = 1;

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    pub(super) async fn check_database(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.check_tables(&[("messages", self.names.messages()), ("dead_letters", self.names.dead_letters())]).await?;
        let caller = self.caller();
        let [synchronous, journal_mode] = &self.texts.settings;
        let synchronous: Vec<Synchronous> = caller.load(Statement::new(synchronous, [])).await?;
        let journal_mode: Vec<JournalMode> = caller.load(Statement::new(journal_mode, [])).await?;
        let is_wal = journal_mode.iter().any(|row| row.0 == "wal");
        Ok(synchronous.iter().filter_map(|row| warning(row.0, is_wal)).collect())
    }

    pub(super) async fn check_pause_table(&self) -> Result<(), StoreError> {
        self.check_tables(&[("paused_topics", self.names.paused_topics())]).await
    }

    /// Looks whether these are there and of this version, by their names without and with a schema.
    pub(super) async fn check_tables(&self, tables: &[(&str, String)]) -> Result<(), StoreError> {
        let caller = self.caller();
        for (table, name) in tables {
            let bind = Bind::Text(self.names.bare(table).into());
            let found: Vec<SqlRow> = caller.load(Statement::new(&self.texts.check, [bind])).await?;
            let text = found.first().map(|row| row.0.as_str());
            check_mark(name.clone(), text.is_some(), text).map_err(StoreError::Schema)?;
        }
        Ok(())
    }
}

/// Both settings are the connection's own: what the pool sets on ours, it is taken to set on the application's.
fn warning(synchronous: i64, is_wal: bool) -> Option<StoreWarning> {
    match synchronous {
        OFF => Some(StoreWarning::NotDurable { setting: "synchronous = OFF" }),
        NORMAL if is_wal => Some(StoreWarning::NotDurable { setting: "synchronous = NORMAL with journal_mode = WAL" }),
        _ => None,
    }
}

struct Synchronous(i64);

impl QueryableByName<Sqlite> for Synchronous {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        row.get_value::<BigInt, _, _>(0).map(Self)
    }
}

struct JournalMode(String);

impl QueryableByName<Sqlite> for JournalMode {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        row.get_value::<Text, _, _>(0).map(Self)
    }
}
