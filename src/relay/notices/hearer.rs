//! The hearer: wakes the readers of this relay's lanes when another process says that it committed there.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::text::read;
use crate::limits::{NOTICE_CHECK_INTERVAL, NOTICE_ECHO_TIMEOUT, NOTICE_RETRY_MAX, NOTICE_RETRY_MIN};
use crate::metrics;
use crate::relay::engines::Engines;
use crate::relay::stop::Stage;
use crate::store::{NoticeStore, Notices, StoreError};

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    let Some(store) = engines.store.notices() else { return };
    let mut trouble = Trouble { is_known: false, pause: NOTICE_RETRY_MIN };
    let hearing = engines.backlog_meters.gauges().of_relay(metrics::NOTICES_HEARING);
    loop {
        hearing.set(0.0);
        let ended = tokio::select! {
            ended = hear(&engines, store, &mut trouble, || hearing.set(1.0)) => ended,
            () = engines.stop.reached(Stage::Draining) => return hearing.set(0.0),
        };
        let Err(error) = ended;
        ::metrics::counter!(metrics::NOTICES_LOST).increment(1);
        if !trouble.is_known {
            tracing::warn!(%error, "notices are not heard: what others commit is found by the poll");
            trouble.is_known = true;
        }
        hearing.set(0.0);
        tokio::select! {
            () = sleep(trouble.pause) => {}
            () = engines.stop.reached(Stage::Draining) => return,
        }
        trouble.pause = (trouble.pause * 2).min(NOTICE_RETRY_MAX);
    }
}

/// Of the connections before this one.
struct Trouble {
    /// Whether it is in the log.
    is_known: bool,
    pause: Duration,
}

#[derive(Debug, thiserror::Error)]
enum Deaf {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the relay did not hear its own notice within {NOTICE_ECHO_TIMEOUT:?}: through pgbouncer in transaction mode there \
         are none, so give it a connection to the server itself"
    )]
    Unheard,
}

/// Hears until that ends. Now and then it listens for a notice of its own: a connection on which nothing comes looks like
/// one of which nobody has anything to say.
async fn hear(
    engines: &Engines,
    store: &dyn NoticeStore,
    trouble: &mut Trouble,
    is_heard: impl Fn(),
) -> Result<std::convert::Infallible, Deaf> {
    let mut notices = store.listen().await?;
    // What was said while nobody listened.
    engines.all.iter().flat_map(|engine| engine.lanes.iter()).for_each(|lanes| lanes.look_again());
    let echo = format!("={}", Uuid::now_v7());
    loop {
        store.tell(std::slice::from_ref(&echo)).await?;
        let is_echo = |notice: &str| notice == echo;
        if !note_until(engines, &mut *notices, Instant::now() + NOTICE_ECHO_TIMEOUT, is_echo).await? {
            return Err(Deaf::Unheard);
        }
        is_heard();
        if std::mem::take(&mut trouble.is_known) {
            tracing::info!("notices are heard again");
        }
        trouble.pause = NOTICE_RETRY_MIN;
        note_until(engines, &mut *notices, Instant::now() + NOTICE_CHECK_INTERVAL, |_| false).await?;
    }
}

/// Notes what comes until then, or until `is_last`; says whether that came.
async fn note_until(
    engines: &Engines,
    notices: &mut dyn Notices,
    until: Instant,
    is_last: impl Fn(&str) -> bool,
) -> Result<bool, StoreError> {
    while let Ok(heard) = timeout_at(until, notices.next()).await {
        let notice = heard?;
        ::metrics::counter!(metrics::NOTICES_HEARD).increment(1);
        for (topic, woken) in read(&notice) {
            if let Some(lanes) = engines.lanes_of(topic) {
                woken.into_iter().for_each(|(lane, id)| lanes.woken(lane, id));
            }
        }
        if is_last(&notice) {
            return Ok(true);
        }
    }
    Ok(false)
}
