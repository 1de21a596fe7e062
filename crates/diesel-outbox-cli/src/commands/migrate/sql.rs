use clap::Args;
use diesel_outbox::migrations::MigrationScript;
use serde::Serialize;

use super::connection::scripts;
use crate::application::Application;
use crate::arguments::{Format, Options};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{List, Output, Row};

/// Which SQL is printed. The database is not asked: its URL says which kind it is.
#[derive(Debug, Clone, Args)]
pub(crate) struct SqlArgs {
    /// Only this migration; by default all of them
    migration: Option<String>,
    /// The SQL that reverts, the last migration first
    #[arg(long)]
    down: bool,
}

#[derive(Debug, Serialize)]
struct ScriptRow {
    migration: String,
    version: String,
    sql: String,
}

impl Row for ScriptRow {
    const HEADINGS: &'static [&'static str] = &["migration", "sql"];

    fn cells(&self) -> Vec<String> {
        vec![self.migration.clone(), self.sql.clone()]
    }
}

impl SqlArgs {
    pub(super) fn run(&self, options: &Options, application: &Application) -> Result<Exit, Error> {
        let outbox = application.outbox(options)?;
        let scripts = scripts(&outbox, options)?;
        let mut chosen: Vec<&MigrationScript> = scripts.iter().filter(|script| self.is_chosen(script)).collect();
        if chosen.is_empty() {
            let known: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
            let wanted = self.migration.as_deref().unwrap_or_default();
            return Err(Error::usage(format!("there is no migration {wanted:?}: use one of {known:?}")));
        }
        if self.down {
            chosen.reverse();
        }
        let output = Output::new(options.output);
        let items: Vec<ScriptRow> = chosen.into_iter().map(|script| self.row(script)).collect();
        if output.format == Format::Table {
            let texts = items.iter().map(|row| format!("-- {}\n{}\n", row.migration, row.sql.trim_end()));
            output.text(&texts.collect::<Vec<_>>().join("\n"))?;
        } else {
            output.list(&List { items, more: false }, "there are no migrations")?;
        }
        Ok(Exit::Fine)
    }

    fn is_chosen(&self, script: &MigrationScript) -> bool {
        self.migration.as_ref().is_none_or(|wanted| *wanted == script.name || *wanted == script.version)
    }

    fn row(&self, script: &MigrationScript) -> ScriptRow {
        let sql = if self.down { &script.down } else { &script.up };
        ScriptRow { migration: script.name.clone(), version: script.version.clone(), sql: sql.clone() }
    }
}
