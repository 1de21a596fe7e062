//! The crier: tells other relays in which of their lanes this process committed, in one statement for all of an interval.

use std::sync::Arc;

use tokio::time::sleep;

use super::text::{Lanes, written};
use crate::limits::NOTICE_INTERVAL;
use crate::metrics;
use crate::relay::engines::Engines;
use crate::relay::stop::Stage;
use crate::store::{NoticeStore, StoreError};

/// Runs until the relay drains, and tells what was committed up to then.
pub(crate) async fn run(engines: Arc<Engines>) {
    let Some(store) = engines.store.notices() else { return };
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = engines.wakes.crier.notified() => {}
            () = engines.stop.reached(Stage::Draining) => {}
        }
        let is_leaving = engines.stop.has_reached(Stage::Draining);
        let told = tell(&engines, store).await;
        if let Err(error) = &told
            && !is_failing
        {
            tracing::warn!(%error, "owners of lanes elsewhere could not be told of commits: they find them by their poll");
        }
        is_failing = told.is_err();
        if is_leaving {
            return;
        }
        // At once where nothing was told for a while, and together with what comes meanwhile where something was.
        if !matches!(told, Ok(false)) {
            tokio::select! {
                () = sleep(NOTICE_INTERVAL) => {}
                () = engines.stop.reached(Stage::Draining) => {}
            }
        }
    }
}

/// Tells what was committed to lanes of others; says whether there was any.
async fn tell(engines: &Engines, store: &dyn NoticeStore) -> Result<bool, StoreError> {
    let lanes = engines.all.iter().flat_map(|engine| engine.lanes.iter());
    let untold: Vec<(Arc<str>, Lanes)> = lanes.map(|lanes| (lanes.name(), lanes.take_untold())).collect();
    let notices = written(&untold);
    if notices.is_empty() {
        return Ok(false);
    }
    let told = store.tell(&notices).await;
    let outcome = if told.is_ok() { "sent" } else { "failed" };
    ::metrics::counter!(metrics::NOTICES, "outcome" => outcome).increment(1);
    told.map(|()| true)
}
