//! What happens by itself: samples for the plots, and events that refresh open pages.

pub(crate) mod sampler;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use crate::limits::{EVENTS_MAX, REFRESH_INTERVAL};
use crate::state::Shared;

/// Says when an open page should load itself again. It says nothing else: the page is made, and access checked, at that request.
pub(crate) async fn events(State(shared): State<Shared>) -> Response {
    match Arc::clone(&shared.streams).try_acquire_owned() {
        Ok(permit) => Sse::new(refreshes(permit)).into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// It ends after a few events, and the browser asks for another one: a server that shuts down in order waits for its responses.
fn refreshes(permit: OwnedSemaphorePermit) -> impl Stream<Item = Result<Event, Infallible>> {
    unfold((EVENTS_MAX, permit), |(left, permit)| async move {
        let left = left.checked_sub(1)?;
        sleep(REFRESH_INTERVAL).await;
        // Browsers pass on no event without data.
        Some((Ok(Event::default().event("refresh").data("now")), (left, permit)))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_soon_and_gives_its_place_back() {
        let (places, began) = (Arc::new(Semaphore::new(1)), Instant::now());
        let permit = Arc::clone(&places).try_acquire_owned().expect("a place");
        let events = refreshes(permit).collect::<Vec<_>>().await;
        assert_eq!((events.len(), began.elapsed()), (3, 3 * REFRESH_INTERVAL));
        assert_eq!(places.available_permits(), 1);
    }
}
