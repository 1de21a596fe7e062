//! What must happen after faults: everything runs again, the backlog is sent, and redrivable dead letters are redriven.

use std::result::Result as Ended;
use std::time::Duration;

use anyhow::Result;
use diesel_async::AsyncPgConnection;
use tokio::time::Instant;

use crate::backlog::{TopicBacklog, backlog};
use crate::environment::Environment;
use crate::fleet::Fleet;
use crate::ledger;
use crate::truth;
use crate::wire::Command;
use xtask::stop::Stop;

/// The longest time until applications run again after everything healed: one that was started without a broker waits
/// for it first.
pub(crate) const RUNNING_MAX: Duration = Duration::from_secs(60);
/// The longest time from then on until the backlog is sent. The wait between slow full scans is longer: a row that only
/// such a scan finds counts as stuck.
const RECOVERY_MAX: Duration = Duration::from_secs(45);
/// The longest time from then on until consumers have processed it. After kills they let records run one by one for up to a minute.
const PROCESSED_MAX: Duration = Duration::from_secs(180);
/// The pause between two phases: longer than a row's lease (5 s), so that a failure in it is retried in it.
pub(crate) const STEADY_STATE: Duration = Duration::from_secs(8);
/// Longer than the longest transaction.
pub(crate) const QUIESCE_DURATION: Duration = Duration::from_secs(4);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The context of a run. What did not end in time is described in words.
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

    /// The number of unsettled rows.
    pub(crate) async fn waiting(&self) -> Result<i64> {
        let backlog = backlog(&mut self.connect().await?, i64::MAX).await?;
        Ok(backlog.iter().map(|of_topic| of_topic.waiting).sum())
    }

    /// Waits until every application reports that it runs. Returns how long it took.
    pub(crate) async fn running(&self, fleet: &mut Fleet) -> Result<Ended<Duration, String>> {
        let begin = Instant::now();
        loop {
            let starting = fleet.starting();
            if starting.is_empty() {
                return Ok(Ok(begin.elapsed()));
            }
            if begin.elapsed() > RUNNING_MAX {
                return Ok(Err(format!(
                    "applications {starting:?} still do not run {RUNNING_MAX:?} after everything healed"
                )));
            }
            fleet.watch(POLL_INTERVAL, self.stop).await?;
        }
    }

    /// Waits until all current rows are settled or dead, and the expired history is gone. Returns how long it took, or
    /// what is left.
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

    /// Waits until consumers have processed what was committed with a number between these, and nothing is parked. Returns how long it
    /// took, or what is left.
    pub(crate) async fn processed(
        &self,
        fleet: &mut Fleet,
        after: i64,
        until: i64,
        delivered: u64,
    ) -> Result<Ended<Duration, String>> {
        let begin = Instant::now();
        let mut connection = self.connect().await?;
        loop {
            let unprocessed = ledger::unprocessed(&mut connection, after, until).await?;
            let of_driver = ledger::delivered_twice(&mut connection).await?;
            let parked = ledger::release_parked(&mut connection, self.database).await?;
            if (unprocessed, parked) == (0, 0) && of_driver.cast_unsigned() >= delivered {
                return Ok(Ok(begin.elapsed()));
            }
            if begin.elapsed() > PROCESSED_MAX {
                return Ok(Err(format!(
                    "{unprocessed} messages are not processed after {PROCESSED_MAX:?}, {parked} are parked, and {of_driver} of \
                     {delivered} of the driver are"
                )));
            }
            fleet.watch(QUIESCE_DURATION / 6, self.stop).await?;
        }
    }

    /// Redrives what the broker accepts by now, and waits until all of it is settled. Returns what is left otherwise.
    pub(crate) async fn redriven(&self, fleet: &mut Fleet) -> Result<Ended<(), String>> {
        // By then every committed message is old enough for the broker to accept it.
        fleet.watch(STEADY_STATE, self.stop).await?;
        if let Err(what) = self.recovered(fleet).await? {
            return Ok(Err(what));
        }
        let begin = Instant::now();
        let mut connection = self.connect().await?;
        loop {
            let dead = truth::redrivable(&mut connection).await?;
            if dead == 0 {
                // Once more: the last of them may have been redriven between the two checks.
                return Ok(self.recovered(fleet).await?.map(drop));
            }
            if begin.elapsed() > RECOVERY_MAX {
                return Ok(Err(format!(
                    "{dead} letters are still dead {RECOVERY_MAX:?} after the broker accepted them again"
                )));
            }
            fleet.send(0, Command::Redrive).await?;
            fleet.watch(QUIESCE_DURATION, self.stop).await?;
            if let Err(what) = self.recovered(fleet).await? {
                return Ok(Err(what));
            }
        }
    }
}

/// Describes what is left. It may have decreased since the time-out.
fn stuck(backlog: &[TopicBacklog], expired: i64) -> String {
    let rows: i64 = backlog.iter().map(|of_topic| of_topic.waiting).sum();
    let mut text = format!("{rows} rows are left after {RECOVERY_MAX:?}, and {expired} expired rows of the history");
    for of_topic in backlog {
        text.push_str(&format!("; {of_topic}"));
    }
    text
}
