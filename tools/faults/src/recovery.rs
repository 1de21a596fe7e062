//! What has to happen behind faults: everything runs again, what waited is sent, and what can be cured is.

use std::result::Result as Ended;
use std::time::Duration;

use anyhow::Result;
use diesel_async::AsyncPgConnection;
use tokio::time::Instant;

use crate::backlog::{TopicBacklog, backlog};
use crate::environment::Environment;
use crate::fleet::Fleet;
use crate::truth;
use crate::wire::Command;
use xtask::stop::Stop;

/// The longest that applications may take to run again in a healed world: one that was started without a broker waits for it
/// first.
pub(crate) const RUNNING_MAX: Duration = Duration::from_secs(60);
/// The longest that it may take from then on until what waited is sent. A look from the beginning rests for longer where it is
/// slow: what is found only by that is stuck.
const RECOVERY_MAX: Duration = Duration::from_secs(45);
/// How long nothing happens between two phases: for longer than a row is leased (5 s), so that what goes wrong in it comes again in it.
pub(crate) const STEADY_STATE: Duration = Duration::from_secs(8);
/// Longer than the longest transaction.
pub(crate) const QUIESCE_DURATION: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Where a run takes place. What did not end in time is said in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) database: &'a str,
    pub(crate) stop: &'a Stop,
}

impl RunContext<'_> {
    pub(crate) async fn connect(&self) -> Result<AsyncPgConnection> {
        self.environment.connect(self.database).await
    }

    /// Rows that are not settled.
    pub(crate) async fn waiting(&self) -> Result<i64> {
        let backlog = backlog(&mut self.connect().await?, i64::MAX).await?;
        Ok(backlog.iter().map(|of_topic| of_topic.waiting).sum())
    }

    /// Waits until every application says that it runs; how long it took.
    pub(crate) async fn running(&self, fleet: &mut Fleet) -> Result<Ended<Duration, String>> {
        let begin = Instant::now();
        loop {
            let starting = fleet.starting();
            if starting.is_empty() {
                return Ok(Ok(begin.elapsed()));
            }
            if begin.elapsed() > RUNNING_MAX {
                return Ok(Err(format!(
                    "applications {starting:?} do not run {RUNNING_MAX:?} after everything healed"
                )));
            }
            fleet.watch(POLL_INTERVAL, self.stop).await?;
        }
    }

    /// Waits until everything that is there now is settled or dead, and what is kept no longer is gone from the history; how long
    /// it took, or what is left.
    pub(crate) async fn recovered(&self, fleet: &mut Fleet) -> Result<Ended<Duration, String>> {
        let begin = Instant::now();
        let mut connection = self.connect().await?;
        let newest = truth::newest(&mut connection).await?;
        loop {
            let (live, expired) = (truth::live(&mut connection, newest).await?, truth::expired(&mut connection).await?);
            if (live, expired) == (0, 0) {
                return Ok(Ok(begin.elapsed()));
            }
            if begin.elapsed() > RECOVERY_MAX {
                return Ok(Err(stuck(&backlog(&mut connection, newest).await?, expired)));
            }
            fleet.watch(POLL_INTERVAL, self.stop).await?;
        }
    }

    /// Has redriven what the broker takes by now, and waits until all of it is settled; what is left otherwise.
    pub(crate) async fn redriven(&self, fleet: &mut Fleet) -> Result<Ended<(), String>> {
        // Whatever was committed is old enough then for the broker to take it.
        fleet.watch(STEADY_STATE, self.stop).await?;
        if let Err(what) = self.recovered(fleet).await? {
            return Ok(Err(what));
        }
        let begin = Instant::now();
        let mut connection = self.connect().await?;
        loop {
            let dead = truth::redrivable(&mut connection).await?;
            if dead == 0 {
                // Once more: the last of them may have been redriven between the two looks.
                return Ok(self.recovered(fleet).await?.map(drop));
            }
            if begin.elapsed() > RECOVERY_MAX {
                return Ok(Err(format!("{dead} letters are dead {RECOVERY_MAX:?} after the broker took them again")));
            }
            fleet.send(0, Command::Redrive).await?;
            fleet.watch(QUIESCE_DURATION, self.stop).await?;
            if let Err(what) = self.recovered(fleet).await? {
                return Ok(Err(what));
            }
        }
    }
}

/// What is left, in words. It may have got less since it was found too much.
fn stuck(backlog: &[TopicBacklog], expired: i64) -> String {
    let rows: i64 = backlog.iter().map(|of_topic| of_topic.waiting).sum();
    let mut text =
        format!("{rows} rows are left after {RECOVERY_MAX:?}, and {expired} of the history that are kept no longer");
    for of_topic in backlog {
        text.push_str(&format!("; {of_topic}"));
    }
    text
}
