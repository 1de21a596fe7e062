//! The faults of consumers' topics and groups.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use tokio::task::spawn_blocking;

use super::FaultInjector;
use crate::group;
use crate::schedule::Fault;
use crate::wire::Topics;

impl FaultInjector<'_> {
    /// Does something to the consumers' topics in the background, and logs its end.
    fn disturb(&mut self, place: usize, act: impl FnOnce() -> Result<()> + Send + 'static) -> bool {
        let fault_log = self.fault_log.clone();
        self.servers.spawn(async move {
            // The broker may be killed meanwhile. What was not sent is not in the topic.
            if let Err(error) = spawn_blocking(act).await? {
                eprintln!("a fault of the consumers' topics ended early: {error:#}");
            }
            fault_log.end(place);
            Ok(())
        });
        false
    }

    /// Sends messages to two partitions at once.
    pub(super) fn deliver_twice(&mut self, fault: Fault, place: usize) -> bool {
        let sequences = self.sequence..self.sequence + fault.amount;
        self.sequence = sequences.end;
        let (bootstrap, topics) = (self.bootstrap.clone(), Topics::of_run(self.database));
        let delivered = Arc::clone(&self.delivered);
        self.disturb(place, move || {
            group::deliver_twice(&bootstrap, &topics, sequences)?;
            delivered.fetch_add(fault.amount, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Lets members join and leave.
    pub(super) fn storm(&mut self, fault: Fault, place: usize) -> bool {
        let (bootstrap, run) = (self.bootstrap.clone(), self.database.to_owned());
        let how_long = Duration::from_millis(fault.for_ms);
        self.disturb(place, move || group::storm(&bootstrap, &run, &Topics::of_run(&run), how_long))
    }
}
