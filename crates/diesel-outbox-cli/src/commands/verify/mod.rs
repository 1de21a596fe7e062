//! Whether tables and broker agree.

mod answer;
mod source;

use std::time::Duration;

use clap::Args;
use diesel_outbox_verify::{Phase, Report, Verification};

use self::answer::Verified;
use self::source::SourceArgs;
use crate::arguments::When;
use crate::error::Error;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::session::Session;

/// What is compared with what.
#[derive(Debug, Clone, Args)]
pub(crate) struct VerifyArgs {
    /// The topic
    #[arg(long)]
    topic: String,
    /// Messages enqueued since: so long ago, such as 90m, or at a time; by default all that the history has
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Messages enqueued before: so long ago, or at a time; by default the present
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
    /// Report at most this many findings of each verdict
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    findings: usize,
    /// Sort in about so many megabytes of memory; the rest goes to temporary files
    #[arg(long, value_name = "MEGABYTES", default_value_t = 73)]
    memory: usize,
    #[command(flatten)]
    source: SourceArgs,
}

impl VerifyArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let now = session.admin.now().await?;
        let mut verification = Verification::of(&session.admin, self.topic.as_str()).findings_max(self.findings);
        verification = verification.memory_max(self.memory.saturating_mul(1 << 20));
        if let Some(since) = self.since {
            verification = verification.since(since.at(now));
        }
        if let Some(until) = self.until {
            verification = verification.until(until.at(now));
        }
        let report = self.verify(&verification).await?;
        let exit = match (report.has_found(), report.is_clean()) {
            (true, _) => Exit::Found,
            (false, true) => Exit::Fine,
            (false, false) => Exit::Unknown,
        };
        session.output.document(&Verified { report })?;
        Ok(exit)
    }

    async fn verify(&self, verification: &Verification) -> Result<Report, Error> {
        let progress = Progress::open("reading rows");
        let tell = |step: diesel_outbox_verify::Progress| progress.set_of(name_of(step.phase), step.done);
        Ok(match self.source.processed_within() {
            Some(within) => verification.run_with_reports(within, tell).await?,
            None => verification.run(self.source.open()?.as_mut(), tell).await?,
        })
    }
}

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Rows => "reading rows",
        Phase::Records => "reading records",
        Phase::Comparing => "comparing",
        _ => "looking findings up again",
    }
}

/// A duration of the command line.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| error.to_string())
}
