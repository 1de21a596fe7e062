//! The notifier: tells other relays in which of their lanes this process committed, in one statement per interval.

use std::sync::Arc;

use tokio::time::sleep;

use super::payload::{LaneIds, encode};
use crate::events::log_event;
use crate::limits::NOTICE_INTERVAL;
use crate::metrics;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;
use crate::store::{NoticeStore, StoreError};

/// Runs until the relay drains, then announces the commits up to that moment.
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
            log_event!(NOTICES_NOT_SENT, %error);
        }
        is_failing = sent.is_err();
        if is_leaving {
            return;
        }
        // At once if nothing was sent recently; otherwise together with what is committed meanwhile.
        if !matches!(sent, Ok(false)) {
            tokio::select! {
                () = sleep(NOTICE_INTERVAL) => {}
                () = engines.stop.reached(Stage::Draining) => {}
            }
        }
    }
}

/// Announces commits to lanes of other nodes. Returns whether there were any.
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
