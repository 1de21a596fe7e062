//! Metrics, and messages that the drill wants.

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use diesel_outbox::Message;
use diesel_outbox::relay::RelayHandle;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use super::load::Work;

#[derive(Clone)]
struct Shared {
    metrics: PrometheusHandle,
    relay: RelayHandle,
    work: Work,
}

pub(super) async fn serve(port: u16, metrics: PrometheusHandle, relay: RelayHandle, work: Work) -> Result<()> {
    let router = Router::new()
        .route("/metrics", get(scrape))
        .route("/livez", get(live))
        .route("/enqueue/{topic}/{key}/{bytes}", post(enqueue))
        .with_state(Shared { metrics, relay, work });
    let listener = TcpListener::bind(("127.0.0.1", port)).await.context("listen")?;
    axum::serve(listener, router).await.context("serve")
}

async fn scrape(State(shared): State<Shared>) -> String {
    shared.metrics.run_upkeep();
    shared.metrics.render()
}

async fn live(State(shared): State<Shared>) -> StatusCode {
    if shared.relay.health().live { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Enqueues a message with a payload of so many bytes.
async fn enqueue(
    State(shared): State<Shared>,
    Path((topic, key, bytes)): Path<(String, String, usize)>,
) -> (StatusCode, String) {
    let message = Message::to(topic).kind("placed").key(key).payload_bytes(vec![b' '; bytes]);
    match shared.work.commit(vec![message]).await {
        Ok(_) => (StatusCode::CREATED, String::new()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
    }
}
