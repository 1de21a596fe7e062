use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{Bool, Nullable, Text};

use super::PostgresStore;
use super::bind::PgBind;
use crate::store::pool::ConnectionPool;
use crate::store::schema::check_version;
use crate::store::sql::dialect::Statement;
use crate::store::{SchemaProblem, StoreError, StoreWarning};

const TABLES: &str = "
SELECT name, to_regclass(name) IS NOT NULL, obj_description(to_regclass(name), 'pg_class')
FROM unnest($1) WITH ORDINALITY AS t(name, place) ORDER BY place";

const SETTINGS: &str = "
SELECT current_setting('default_transaction_read_only') = 'on', current_setting('fsync') = 'off',
  current_setting('full_page_writes') = 'off', current_setting('synchronous_commit') = 'off'";

impl<P: ConnectionPool<Pg>> PostgresStore<P> {
    pub(super) async fn check_database(&self) -> Result<Vec<StoreWarning>, StoreError> {
        if !self.executor.connections.is_transaction_pooled() {
            self.refuse_transaction_pooling().await?;
        }
        let mut conn = self.executor.connections.acquire().await?;
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {}", self.local_settings());
        conn.begin(begin.into()).await.map_err(begin_refused)?;
        let names = vec![self.names.messages(), self.names.dead_letters()];
        let tables: Vec<TableRow> = conn.load(tables(names)).await?;
        let settings: Vec<SettingsRow> = conn.load(Statement::new(&SETTINGS.into(), [])).await?;
        conn.commit().await?;
        conn.release();
        check_versions(tables)?;
        settings.iter().try_for_each(SettingsRow::refuse)?;
        Ok(settings.iter().flat_map(SettingsRow::warnings).collect())
    }

    /// Checks that these tables exist and have this version.
    pub(super) async fn check_named(&self, names: Vec<String>) -> Result<(), StoreError> {
        check_versions(self.executor.load(tables(names)).await?)
    }
}

fn tables(names: Vec<String>) -> Statement<Pg> {
    Statement::new(&TABLES.into(), [PgBind::Texts(names).into()])
}

fn check_versions(tables: Vec<TableRow>) -> Result<(), StoreError> {
    let check = |table: TableRow| check_version(table.name, table.is_there, table.comment.as_deref());
    tables.into_iter().try_for_each(check).map_err(StoreError::Schema)
}

/// Only a pooler answers BEGIN with an error of its own.
fn begin_refused(error: StoreError) -> StoreError {
    match error {
        StoreError::Statement(refusal) => StoreError::Schema(SchemaProblem::Setting {
            found: format!("the server refuses BEGIN ({refusal})"),
            remedy: "connect to the primary; if through pgbouncer, with pool_mode = transaction or session",
        }),
        error => error,
    }
}

struct TableRow {
    name: String,
    is_there: bool,
    comment: Option<String>,
}

impl QueryableByName<Pg> for TableRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        Ok(Self {
            name: row.get_value::<Text, _, _>(0)?,
            is_there: row.get_value::<Bool, _, _>(1)?,
            comment: row.get_value::<Nullable<Text>, _, _>(2)?,
        })
    }
}

struct SettingsRow {
    is_read_only: bool,
    /// For each setting, whether it can lose commits.
    not_durable: [(bool, &'static str); 3],
}

impl QueryableByName<Pg> for SettingsRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        Ok(Self {
            is_read_only: row.get_value::<Bool, _, _>(0)?,
            not_durable: [
                (row.get_value::<Bool, _, _>(1)?, "fsync = off"),
                (row.get_value::<Bool, _, _>(2)?, "full_page_writes = off"),
                (row.get_value::<Bool, _, _>(3)?, "synchronous_commit = off"),
            ],
        })
    }
}

impl SettingsRow {
    fn refuse(&self) -> Result<(), StoreError> {
        if self.is_read_only {
            return Err(StoreError::Schema(SchemaProblem::Setting {
                found: "default_transaction_read_only = on".to_owned(),
                remedy: "give the relay a role or a connection that may write",
            }));
        }
        Ok(())
    }

    fn warnings(&self) -> impl Iterator<Item = StoreWarning> {
        let lossy = self.not_durable.iter().filter(|(is_lossy, _)| *is_lossy);
        lossy.map(|(_, setting)| StoreWarning::NotDurable { setting })
    }
}
