use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::MysqlStore;
use super::transaction::{COMMIT, begin_write};
use crate::store::pool::ConnectionPool;
use crate::store::schema::check_version;
use crate::store::sql::dialect::{Bind, Statement};
use crate::store::{SchemaProblem, StoreError, StoreWarning};

// One row, also for a table that is not there. A name without a schema is in the connection's database. Not a join with the names of
// several tables: MariaDB then opens every table of the server, which takes a quarter of a second where there are 7,000.
const TABLE: &str = "
SELECT CAST(? AS char),
  (SELECT engine FROM information_schema.tables WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?),
  (SELECT table_comment FROM information_schema.tables WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?)";

const SETTINGS: &str = "
SELECT CAST(@@log_bin AS SIGNED), CAST(@@binlog_format AS char), CAST(@@innodb_flush_log_at_trx_commit AS SIGNED),
  CAST(@@sync_binlog AS SIGNED), CAST(@@global.read_only AS SIGNED)";

// Read from the views of server variables, because naming a variable that a server does not know is an error. MariaDB and Percona's
// MySQL have Galera.
const CLUSTER: &str = "
SELECT LOWER(variable_name), UPPER(variable_value)
FROM /*M! information_schema.global_variables */ /*!80000 performance_schema.global_variables */
WHERE LOWER(variable_name) IN ('wsrep_on', 'group_replication_single_primary_mode', 'group_replication_group_name')";

impl<P: ConnectionPool<Mysql>> MysqlStore<P> {
    pub(super) async fn check_database(&self) -> Result<Vec<StoreWarning>, StoreError> {
        let mut conn = self.executor.connections.acquire().await?;
        conn.begin(begin_write()).await?;
        let tables: Vec<TableRow> = conn.load(self.tables(&["messages", "dead_letters"])).await?;
        let settings: Vec<SettingsRow> = conn.load(Statement::new(&SETTINGS.into(), [])).await?;
        let cluster: Vec<VariableRow> = conn.load(Statement::new(&CLUSTER.into(), [])).await?;
        conn.commit_by(COMMIT.into()).await?;
        conn.release();
        tables.into_iter().try_for_each(TableRow::check).map_err(StoreError::Schema)?;
        settings.iter().try_for_each(SettingsRow::refuse).map_err(StoreError::Schema)?;
        Ok(settings.iter().flat_map(SettingsRow::warnings).chain(multiple_primaries(&cluster)).collect())
    }

    /// Checks that these tables exist and have this version.
    pub(super) async fn check_named(&self, tables: &[&str]) -> Result<(), StoreError> {
        let tables: Vec<TableRow> = self.executor.load(self.tables(tables)).await?;
        tables.into_iter().try_for_each(TableRow::check).map_err(StoreError::Schema)
    }

    /// Asks about tables by name, with or without a schema.
    fn tables(&self, tables: &[&str]) -> Statement<Mysql> {
        let binds = tables.iter().flat_map(|table| {
            let schema = || Bind::OptionalText(self.names.schema_name().map(str::to_owned));
            let name = || Bind::Text(self.names.unqualified(table).into());
            [Bind::Text(self.names.qualified(table).into()), schema(), name(), schema(), name()]
        });
        let sql = vec![TABLE; tables.len()].join(" UNION ALL");
        Statement::new(&sql.as_str().into(), binds.collect::<Vec<_>>())
    }
}

struct TableRow {
    name: String,
    engine: Option<String>,
    comment: Option<String>,
}

impl QueryableByName<Mysql> for TableRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        Ok(Self {
            name: row.get_value::<Text, _, _>(0)?,
            engine: row.get_value::<Nullable<Text>, _, _>(1)?,
            comment: row.get_value::<Nullable<Text>, _, _>(2)?,
        })
    }
}

impl TableRow {
    fn check(self) -> Result<(), SchemaProblem> {
        let found = format!("the table {} has the engine {}", self.name, self.engine.as_deref().unwrap_or("unknown"));
        check_version(self.name, self.comment.is_some(), self.comment.as_deref())?;
        match self.engine.as_deref() {
            Some("InnoDB") => Ok(()),
            _ => Err(SchemaProblem::Setting {
                found,
                remedy: "change it to ENGINE = InnoDB: other engines have no transactions",
            }),
        }
    }
}

/// A server variable: name in lower case, value in upper case.
struct VariableRow {
    name: String,
    value: String,
}

impl QueryableByName<Mysql> for VariableRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        let value: Option<String> = row.get_value::<Nullable<Text>, _, _>(1)?;
        Ok(Self { name: row.get_value::<Text, _, _>(0)?, value: value.unwrap_or_default() })
    }
}

/// Detects Galera, whose nodes all accept writes, or a replication group with several primaries.
fn multiple_primaries(variables: &[VariableRow]) -> Option<StoreWarning> {
    let value =
        |name: &str| variables.iter().find(|variable| variable.name == name).map(|variable| variable.value.as_str());
    let is_in_group = value("group_replication_group_name").is_some_and(|group| !group.is_empty());
    let setting = if value("wsrep_on") == Some("ON") {
        "wsrep_on = ON"
    } else if is_in_group && value("group_replication_single_primary_mode") == Some("OFF") {
        "group_replication_single_primary_mode = OFF"
    } else {
        return None;
    };
    Some(StoreWarning::MultiplePrimaries { setting })
}

struct SettingsRow {
    has_binlog: bool,
    binlog_format: String,
    flush_log_at_commit: i64,
    sync_binlog: i64,
    is_read_only: bool,
}

impl QueryableByName<Mysql> for SettingsRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        let is_set = |place| row.get_value::<BigInt, i64, _>(place).map(|value| value != 0);
        Ok(Self {
            has_binlog: is_set(0)?,
            binlog_format: row.get_value::<Text, _, _>(1)?,
            flush_log_at_commit: row.get_value::<BigInt, _, _>(2)?,
            sync_binlog: row.get_value::<BigInt, _, _>(3)?,
            is_read_only: is_set(4)?,
        })
    }
}

impl SettingsRow {
    fn refuse(&self) -> Result<(), SchemaProblem> {
        let (found, remedy) = if self.has_binlog && self.binlog_format == "STATEMENT" {
            (
                "binlog_format = STATEMENT",
                "set binlog_format to ROW or MIXED: at READ COMMITTED the server cannot write with STATEMENT",
            )
        } else if self.is_read_only {
            ("read_only = ON", "connect to the primary: this server accepts no writes")
        } else {
            return Ok(());
        };
        Err(SchemaProblem::Setting { found: found.to_owned(), remedy })
    }

    fn warnings(&self) -> impl Iterator<Item = StoreWarning> {
        // With a binlog, recovery rolls back transactions that are not in it.
        let lossy = [
            (self.flush_log_at_commit != 1, "innodb_flush_log_at_trx_commit <> 1"),
            (self.has_binlog && self.sync_binlog != 1, "sync_binlog <> 1"),
        ];
        lossy.into_iter().filter(|(is_lossy, _)| *is_lossy).map(|(_, setting)| StoreWarning::NotDurable { setting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn a_cluster_with_several_primaries_is_warned_of() {
        let (on, mode, group) = ("wsrep_on", "group_replication_single_primary_mode", "group_replication_group_name");
        let cases: [(Variables<'_>, Option<&str>); 6] = [
            (&[], None),
            (&[(on, "OFF")], None),
            (&[(on, "ON")], Some("wsrep_on = ON")),
            (&[(mode, "OFF"), (group, "")], None),
            (&[(mode, "ON"), (group, "AAAA")], None),
            (&[(mode, "OFF"), (group, "AAAA")], Some("group_replication_single_primary_mode = OFF")),
        ];
        for (variables, expected) in cases {
            let rows =
                variables.iter().map(|(name, value)| VariableRow { name: (*name).into(), value: (*value).into() });
            let warning = multiple_primaries(&rows.collect::<Vec<_>>());
            assert_eq!(warning, expected.map(|setting| StoreWarning::MultiplePrimaries { setting }), "{variables:?}");
        }
    }
}
