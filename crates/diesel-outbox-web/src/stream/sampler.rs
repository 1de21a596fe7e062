//! The task that takes the samples.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use diesel_outbox::relay::RelayStatus;
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::limits::SAMPLE_INTERVAL;
use crate::samples::{Counted, Sample};
use crate::state::{Shared, State};

/// Starts the task, if there is a runtime and it does not run yet. It ends with the router.
pub(crate) fn start(shared: &Shared) {
    let Ok(runtime) = Handle::try_current() else { return };
    if !shared.samples.is_sampled.swap(true, Relaxed) {
        runtime.spawn(run(Arc::downgrade(shared)));
    }
}

async fn run(state: Weak<State>) {
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(state) = state.upgrade() else { return };
        take(&state).await;
    }
}

/// Takes one sample.
pub(crate) async fn take(state: &State) {
    let counted = state.reader().backlog().await;
    if let Err(error) = &counted {
        tracing::debug!(%error, "the dashboard could not count the backlog");
    }
    let statuses = state.statuses();
    let total = |of: fn(&RelayStatus) -> u64| statuses.iter().map(of).sum();
    state.samples.push(Sample {
        at: Instant::now(),
        backlog: counted.ok().map(|backlog| Counted {
            live: backlog.live(),
            due: backlog.due(),
            dead: backlog.dead_letters(),
            overdue: backlog.topics.iter().map(|topic| topic.overdue_by).max().unwrap_or(Duration::ZERO),
        }),
        delivered: total(|status| status.delivered),
        failed: total(|status| status.failed),
    });
}
