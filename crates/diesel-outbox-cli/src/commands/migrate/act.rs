use clap::Args;
use serde::Serialize;

use super::connection::{MigrationConnection, scripts};
use super::open;
use crate::address::Address;
use crate::application::Application;
use crate::arguments::Options;
use crate::confirm::confirm;
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Output, Page};

/// Runs all that have not run.
#[derive(Debug, Clone, Args)]
pub(crate) struct UpArgs {}

/// How many are reverted.
#[derive(Debug, Clone, Args)]
pub(crate) struct DownArgs {
    /// Revert this many, the last one first
    #[arg(default_value_t = 1, value_name = "COUNT")]
    count: usize,
    /// Revert all of them
    #[arg(long, conflicts_with = "count")]
    all: bool,
}

#[derive(Debug, Serialize)]
struct Migrated {
    action: &'static str,
    dry_run: bool,
    migrations: Vec<String>,
}

impl Document for Migrated {
    fn show(&self, page: &mut Page) {
        let done = match (self.action, self.dry_run) {
            ("migrate", false) => "ran",
            ("migrate", true) => "would run",
            (_, false) => "reverted",
            (_, true) => "would revert",
        };
        if self.migrations.is_empty() {
            page.line("there is nothing to do");
        }
        for migration in &self.migrations {
            page.line(&format!("{done} {migration}"));
        }
    }
}

impl UpArgs {
    pub(super) async fn run(&self, options: &Options, application: &Application) -> Result<Exit, Error> {
        let (outbox, mut conn) = match connect::address(options)? {
            // The only place where a new file is meant.
            Address::Sqlite(path) if !path.exists() && !options.dry_run => {
                (application.outbox(options)?, MigrationConnection::open(options).await?)
            }
            _ => open(options, application).await?,
        };
        let migrations = match options.dry_run {
            true => {
                let ran = conn.ran(&outbox).await?;
                let names = scripts(&outbox, options)?.into_iter().map(|script| script.name);
                names.filter(|name| !ran.contains(name)).collect()
            }
            false => conn.up(&outbox).await?,
        };
        let migrated = Migrated { action: "migrate", dry_run: options.dry_run, migrations };
        Output::new(options.output).document(&migrated)?;
        Ok(Exit::Fine)
    }
}

impl DownArgs {
    pub(super) async fn run(&self, options: &Options, application: &Application) -> Result<Exit, Error> {
        let count = if self.all { usize::MAX } else { self.count };
        let (outbox, mut conn) = open(options, application).await?;
        let mut migrations: Vec<String> = conn.ran(&outbox).await?.into_iter().rev().take(count).collect();
        if !options.dry_run && !migrations.is_empty() {
            confirm(
                options,
                &format!("Revert {}, and drop the tables with all that is in them", migrations.join(", ")),
            )?;
            migrations = conn.down(&outbox, count).await?;
        }
        let migrated = Migrated { action: "revert", dry_run: options.dry_run, migrations };
        Output::new(options.output).document(&migrated)?;
        Ok(Exit::Fine)
    }
}
