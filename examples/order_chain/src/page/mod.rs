//! The page at `/`: stock, orders, lag and faults, live.

mod board;

use std::convert::Infallible;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{Html, Sse};
use axum::routing::get;
use futures_util::{Stream, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::board::{Board, Snapshot, Stock};
use crate::Failure;

/// The usual port; another one if it is taken.
const PORT: u16 = 8_091;

/// The page, and the events that it draws.
pub fn router(board: &Board) -> Router {
    Router::new().route("/", get(page)).route("/events", get(events)).with_state(board.clone())
}

/// Serves the page on this machine. Returns its address.
///
/// # Errors
/// Returns an error if there is no port.
pub async fn serve(board: &Board) -> Result<(String, JoinHandle<std::io::Result<()>>), Failure> {
    let listener = match TcpListener::bind(("127.0.0.1", PORT)).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind(("127.0.0.1", 0)).await?,
    };
    let address = format!("http://{}/", listener.local_addr()?);
    let app = router(board);
    Ok((address, tokio::spawn(async move { axum::serve(listener, app).await })))
}

async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}

/// The newest snapshot, and each one after it.
async fn events(State(board): State<Board>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut snapshots = board.snapshots();
    snapshots.mark_changed();
    Sse::new(stream::unfold(snapshots, next)).keep_alive(KeepAlive::default())
}

async fn next(
    mut snapshots: watch::Receiver<Snapshot>,
) -> Option<(Result<Event, Infallible>, watch::Receiver<Snapshot>)> {
    snapshots.changed().await.ok()?;
    let text = serde_json::to_string(&*snapshots.borrow_and_update()).ok()?;
    Some((Ok(Event::default().data(text)), snapshots))
}
