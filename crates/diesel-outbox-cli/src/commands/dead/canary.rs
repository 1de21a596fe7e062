use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use diesel_outbox::admin::{BoundedCount, Canary, CanaryHalt, CanaryReport, CanaryStep, DeadLetterFilter, RedriveRate};
use serde::Serialize;

use super::list::DeadRow;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Page, Row, note};
use crate::progress::Progress;
use crate::session::Session;

/// How a redrive goes in steps.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "A few first")]
pub(crate) struct CanaryArgs {
    /// Send a few first, then more, then the rest; halt if they are dead-lettered again. By default 1, 10, 100
    #[arg(long, value_name = "STEPS", num_args = 0..=1, require_equals = true, default_missing_value = "1,10,100")]
    canary: Option<Steps>,
    /// How many of a step may be dead-lettered again
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "canary")]
    dead_max: usize,
    /// How long a step waits for the outcome of its messages
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1m", requires = "canary")]
    outcome_within: Duration,
}

/// How many messages each step sends again.
#[derive(Debug, Clone)]
struct Steps(Vec<usize>);

impl FromStr for Steps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let steps: Result<Vec<usize>, _> = text.split(',').map(|step| step.trim().parse()).collect();
        steps.map(Self).map_err(|_| "give the sizes of the steps, such as 1,10,100".to_owned())
    }
}

impl CanaryArgs {
    pub(super) fn is_wanted(&self) -> bool {
        self.canary.is_some()
    }

    pub(super) async fn run(
        &self,
        filter: &DeadLetterFilter,
        rate: RedriveRate,
        total: BoundedCount,
        session: &Session,
    ) -> Result<Exit, Error> {
        let steps = self.canary.iter().flat_map(|Steps(steps)| steps.iter().copied());
        let canary =
            Canary::default().steps(steps).dead_max(self.dead_max).outcome_within(self.outcome_within).rate(rate);
        let (progress, mut redriven) = (Progress::of("sending a few first", total), 0);
        let on_step = |step: &CanaryStep| {
            redriven += step.redriven;
            progress.set(redriven);
        };
        let report = session.admin.redrive_canary(filter, canary, on_step).await?;
        drop(progress);
        let has_halted = report.halt.is_some();
        session.output.document(&Report(report))?;
        if has_halted {
            note(
                "it has halted: what was sent again stays so; look at the dead letters, and run it again when the cause is fixed",
            );
        }
        Ok(if has_halted { Exit::Found } else { Exit::Fine })
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Report(CanaryReport);

struct StepRow<'a>(usize, &'a CanaryStep);

impl Serialize for StepRow<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.1.serialize(serializer)
    }
}

impl Row for StepRow<'_> {
    const HEADINGS: &'static [&'static str] = &["step", "sent again", "delivered", "dead again", "pending"];

    fn cells(&self) -> Vec<String> {
        let CanaryStep { redriven, sent, dead_again, pending, .. } = self.1;
        [self.0, *redriven, *sent, *dead_again, *pending].iter().map(ToString::to_string).collect()
    }
}

impl Document for Report {
    fn show(&self, page: &mut Page) {
        let steps: Vec<StepRow<'_>> = self.0.steps.iter().enumerate().map(|(at, step)| StepRow(at + 1, step)).collect();
        page.rows(&steps);
        match &self.0.halt {
            None => page.line(&format!("redrive_canary: {}", self.0.redriven())),
            Some(CanaryHalt::TimedOut { paused }) if paused.is_empty() => {
                page.line("halted: messages of the last step had no outcome in time");
            }
            Some(CanaryHalt::TimedOut { paused }) => {
                page.line(&format!(
                    "halted: messages of the last step wait, because these topics are paused: {paused:?}"
                ));
            }
            Some(_) => page.line("halted: messages of the last step were dead-lettered again"),
        }
        let dead: Vec<DeadRow> =
            self.0.dead_again.iter().cloned().map(|letter| DeadRow { letter, has_payload: false }).collect();
        page.rows(&dead);
    }
}
