//! The notifier: tells other relays in which of their lanes this process committed, in one statement for all of an interval.

use std::sync::Arc;

use tokio::time::sleep;

use super::payload::{LaneIds, encode};
use crate::limits::NOTICE_INTERVAL;
use crate::metrics;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;
use crate::store::{NoticeStore, StoreError};

/// Runs until the relay drains, and tells what was committed up to then.
pub(crate) async fn run(engines: Arc<Engines>) {
    let Some(store) = engines.store.notices() else { return };
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = engines.wakeups.notifier.notified() => {}
            () = engines.stop.reached(Stage::Draining) => {}
        }
        let is_leaving = engines.stop.has_reached(Stage::Draining);
        let sent = notify(&engines, store).await;
        if let Err(error) = &sent
            && !is_failing
        {
            tracing::warn!(%error, "owners of lanes elsewhere could not be notified of commits: they find them by their poll");
        }
        is_failing = sent.is_err();
        if is_leaving {
            return;
        }
        // At once where nothing was sent for a while, and together with what comes meanwhile where something was.
        if !matches!(sent, Ok(false)) {
            tokio::select! {
                () = sleep(NOTICE_INTERVAL) => {}
                () = engines.stop.reached(Stage::Draining) => {}
            }
        }
    }
}

/// Tells what was committed to lanes of others; says whether there was any.
async fn notify(engines: &Engines, store: &dyn NoticeStore) -> Result<bool, StoreError> {
    let lanes = engines.all.iter().flat_map(|engine| engine.lanes.iter());
    let unnotified: Vec<(Arc<str>, LaneIds)> = lanes.map(|lanes| (lanes.name(), lanes.take_unnotified())).collect();
    let notices = encode(&unnotified);
    if notices.is_empty() {
        return Ok(false);
    }
    let sent = store.notify(&notices).await;
    let outcome = if sent.is_ok() { "sent" } else { "failed" };
    ::metrics::counter!(metrics::NOTICES, "outcome" => outcome).increment(1);
    sent.map(|()| true)
}
