//! The notice listener: wakes this relay's lane readers when another process reports a commit to their lanes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::payload::decode;
use crate::events::log_event;
use crate::limits::{NOTICE_CHECK_INTERVAL, NOTICE_ECHO_TIMEOUT, NOTICE_RETRY_MAX, NOTICE_RETRY_MIN};
use crate::metrics;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;
use crate::store::{NoticeStore, NoticeStream, StoreError};

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    let Some(store) = engines.store.notices() else { return };
    let mut reconnect = ReconnectState { is_logged: false, pause: NOTICE_RETRY_MIN };
    let listening = engines.backlog_gauges.gauges().of_relay(metrics::NOTICES_LISTENING);
    loop {
        listening.set(0.0);
        let ended = tokio::select! {
            ended = listen(&engines, store, &mut reconnect, || listening.set(1.0)) => ended,
            () = engines.stop.reached(Stage::Draining) => return listening.set(0.0),
        };
        let Err(error) = ended;
        ::metrics::counter!(metrics::NOTICES_LOST).increment(1);
        if !reconnect.is_logged {
            log_event!(NOTICES_LOST, %error);
            reconnect.is_logged = true;
        }
        listening.set(0.0);
        tokio::select! {
            () = sleep(reconnect.pause) => {}
            () = engines.stop.reached(Stage::Draining) => return,
        }
        reconnect.pause = (reconnect.pause * 2).min(NOTICE_RETRY_MAX);
    }
}

/// State kept across connections.
struct ReconnectState {
    /// Whether the loss is already logged.
    is_logged: bool,
    pause: Duration,
}

#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the relay did not receive its own notice within {NOTICE_ECHO_TIMEOUT:?}: pgbouncer in transaction mode \
         passes none, so give the relay a direct connection to the server"
    )]
    NoEcho,
}

/// Listens until the connection ends. Now and then it sends a notice to itself: a dead connection looks like one on
/// which nobody has anything to say.
async fn listen(
    engines: &Engines,
    store: &dyn NoticeStore,
    reconnect: &mut ReconnectState,
    on_connected: impl Fn(),
) -> Result<std::convert::Infallible, ListenError> {
    let mut notices = store.listen().await?;
    // Commits that were announced while nobody listened.
    engines.all.iter().flat_map(|engine| engine.lanes.iter()).for_each(|lanes| lanes.scan_again());
    let echo = format!("={}", Uuid::now_v7());
    loop {
        store.notify(std::slice::from_ref(&echo)).await?;
        let is_echo = |notice: &str| notice == echo;
        if !receive_until(engines, &mut *notices, Instant::now() + NOTICE_ECHO_TIMEOUT, is_echo).await? {
            return Err(ListenError::NoEcho);
        }
        on_connected();
        if std::mem::take(&mut reconnect.is_logged) {
            log_event!(NOTICES_BACK);
        }
        reconnect.pause = NOTICE_RETRY_MIN;
        receive_until(engines, &mut *notices, Instant::now() + NOTICE_CHECK_INTERVAL, |_| false).await?;
    }
}

/// Notes notices until the deadline or until `is_last`. Returns whether that one came.
async fn receive_until(
    engines: &Engines,
    notices: &mut dyn NoticeStream,
    until: Instant,
    is_last: impl Fn(&str) -> bool,
) -> Result<bool, StoreError> {
    while let Ok(received) = timeout_at(until, notices.next()).await {
        let notice = received?;
        ::metrics::counter!(metrics::NOTICES_RECEIVED).increment(1);
        for (topic, pending_reads) in decode(&notice) {
            if let Some(lanes) = engines.lanes_of(topic) {
                pending_reads.into_iter().for_each(|(lane, id)| lanes.add_pending_read(lane, id));
            }
        }
        if is_last(&notice) {
            return Ok(true);
        }
    }
    Ok(false)
}
