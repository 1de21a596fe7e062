//! What happens by itself: samples for the plots, and events that refresh open pages.

pub(crate) mod sampler;
pub(crate) mod samples;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::limits::REFRESH_INTERVAL;
use crate::state::Shared;

/// Says when an open page should load itself again. It says nothing else: the page is made, and access checked, at that request.
pub(crate) async fn events(State(shared): State<Shared>) -> Response {
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let mut ticks = interval_at(Instant::now() + REFRESH_INTERVAL, REFRESH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let refreshes = unfold((ticks, permit), |(mut ticks, permit)| async {
        ticks.tick().await;
        // Browsers pass on no event without data.
        Some((Ok::<_, Infallible>(Event::default().event("refresh").data("now")), (ticks, permit)))
    });
    Sse::new(refreshes).keep_alive(KeepAlive::default()).into_response()
}
