use std::time::Duration;

use clap::{Args, ValueEnum};
use diesel_outbox::TableNames;

use crate::error::Error;

/// The options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Options {
    /// The database: postgres://, mysql://, mariadb://, or sqlite: with a path
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL", global = true)]
    pub(crate) database_url: Option<String>,
    /// The schema of the outbox's tables
    #[arg(long, global = true)]
    pub(crate) schema: Option<String>,
    /// The prefix of the outbox's tables, outbox_ by default
    #[arg(long, global = true)]
    pub(crate) prefix: Option<String>,
    /// How long a statement may take, such as 30s; 5s by default
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    pub(crate) statement_timeout: Option<Duration>,
    /// The database is behind pgbouncer in transaction mode
    #[arg(long, global = true)]
    pub(crate) transaction_pooling: bool,
    /// The longest lease of the relays, if it is not the default of 30s
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    pub(crate) lease_duration: Option<Duration>,
    /// Say what would be done, and do nothing
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Do what destroys without a question
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, global = true)]
    pub(crate) output: Format,
    /// Who does it, for the audit; by default the user of the operating system
    #[arg(long, global = true)]
    pub(crate) actor: Option<String>,
    /// Why it is done, for the audit
    #[arg(long, global = true)]
    pub(crate) reason: Option<String>,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON document per line
    Jsonl,
}

impl Options {
    /// The names of the tables, as given.
    pub(crate) fn table_names(&self) -> Result<TableNames, Error> {
        let mut names = TableNames::default();
        if let Some(prefix) = &self.prefix {
            names = names.prefix(prefix)?;
        }
        if let Some(schema) = &self.schema {
            names = names.schema(schema)?;
        }
        Ok(names)
    }
}
