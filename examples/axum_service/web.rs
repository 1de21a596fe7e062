//! The routes.

use std::time::UNIX_EPOCH;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, DeadLetterFilter};
use diesel_outbox_web::HealthRoutes;
use serde_json::{Value, json};

use crate::orders::{OrderPlaced, PlaceError, place};
use crate::service::Service;

/// Keep all but `/orders` on a port that only operators reach, or behind a login.
pub(crate) fn router(service: Service) -> Router {
    // A database or Kafka that is down leaves the service ready: no other process could do more, and events wait.
    let health = HealthRoutes::new(service.relay.clone()).router();
    Router::new()
        .route("/orders", post(place_order))
        .route("/metrics", get(metrics))
        .route("/admin/dead-letters", get(dead_letters))
        .route("/admin/dead-letters/{message_id}/redrive", post(redrive))
        .with_state(service)
        .merge(health)
}

async fn place_order(
    State(service): State<Service>,
    Json(placed): Json<OrderPlaced>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let mut conn =
        service.pool.get().await.map_err(|error| Refusal(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    let message_id = place(&mut conn, &service.outbox, &placed).await?;
    Ok((StatusCode::CREATED, Json(json!({ "order_id": placed.order_id, "message_id": message_id.to_string() }))))
}

/// For Prometheus. The relay sets the gauges of what waits and of what is dead by itself.
async fn metrics(State(service): State<Service>) -> String {
    service.metrics.run_upkeep();
    service.metrics.render()
}

/// The first hundred.
async fn dead_letters(State(service): State<Service>) -> Result<Json<Value>, Refusal> {
    let page = service.admin.dead_letters(&DeadLetterFilter::new(), None, 100).await?;
    let letters = page.items.iter().map(|letter| {
        json!({
            "message_id": letter.message_id.to_string(),
            "topic": &*letter.topic,
            "kind": letter.kind,
            "key": letter.key,
            "payload": service.admin.payload_text(letter).to_string(),
            "reason": letter.reason,
            "dead_at": letter.dead_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        })
    });
    Ok(Json(json!({ "letters": letters.collect::<Vec<_>>(), "more": page.next.is_some() })))
}

async fn redrive(State(service): State<Service>, Path(message_id): Path<String>) -> Result<StatusCode, Refusal> {
    let message_id: MessageId =
        message_id.parse().map_err(|_| Refusal(StatusCode::NOT_FOUND, "no message id".to_owned()))?;
    service.admin.redrive(message_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a client is told instead.
struct Refusal(StatusCode, String);

impl From<PlaceError> for Refusal {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::PlacedBefore(_) => Self(StatusCode::CONFLICT, error.to_string()),
            PlaceError::Database(_) => internal(&error),
        }
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::NotDeadLetter { .. } => Self(StatusCode::NOT_FOUND, error.to_string()),
            _ => internal(&error),
        }
    }
}

/// The reason is for the log, and not for clients.
fn internal(error: &(dyn std::error::Error + 'static)) -> Refusal {
    tracing::error!(error, "a request failed");
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned())
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}
