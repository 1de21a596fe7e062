//! Looks for what is wrong.

mod database;
mod finding;
mod topics;

use std::time::Duration;

use clap::Args;

use self::finding::{Findings, Verdict};
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

/// What counts as wrong.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    /// How long messages of a topic may be due before something is wrong
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2m")]
    overdue_max: Duration,
    /// How many dead letters a topic may have before something is wrong
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    dead_max: usize,
    /// Take warnings for something wrong
    #[arg(long)]
    strict: bool,
}

impl CheckArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        // Whether it can be reached at all.
        session.admin.now().await?;
        let mut findings = Findings::default();
        let has_tables = database::check(session, &mut findings).await?;
        if has_tables {
            topics::check(self, session, &mut findings).await;
        }
        let (worst, has_warning) = (findings.worst(), findings.has_warning());
        findings.show(session.output)?;
        Ok(match worst {
            Verdict::Wrong => Exit::Found,
            _ if self.strict && has_warning => Exit::Found,
            Verdict::Unknown => Exit::Unknown,
            Verdict::Warning | Verdict::Fine => Exit::Fine,
        })
    }
}
