use serde::Serialize;

use super::connection::scripts;
use super::open;
use crate::application::Application;
use crate::arguments::Options;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{List, Output, Row, note};

#[derive(Debug, Serialize)]
struct MigrationRow {
    migration: String,
    ran: bool,
}

impl Row for MigrationRow {
    const HEADINGS: &'static [&'static str] = &["migration", "ran"];

    fn cells(&self) -> Vec<String> {
        vec![self.migration.clone(), if self.ran { "yes" } else { "no" }.to_owned()]
    }
}

pub(super) async fn run(options: &Options, application: &Application) -> Result<Exit, Error> {
    let (outbox, mut conn) = open(options, application).await?;
    let ran = conn.ran(&outbox).await?;
    let scripts = scripts(&outbox, options)?.into_iter();
    let items: Vec<_> =
        scripts.map(|script| MigrationRow { ran: ran.contains(&script.name), migration: script.name }).collect();
    let has_pending = items.iter().any(|row| !row.ran);
    Output::new(options.output).list(&List { items, more: false }, "there are no migrations")?;
    if has_pending {
        note(
            "`migrate up` runs those that have not run. If you copied their SQL into your own migrations, ask `migrate check`",
        );
    }
    Ok(Exit::Fine)
}
