//! The shop's routes.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use diesel_outbox::Outbox;
use diesel_outbox::store::OutboxStore;
use diesel_outbox_web::{Access, Dashboard, Rights};
use serde_json::{Value, json};

use super::orders::{DatabaseError, Payment};
use super::{LEASE_DURATION, NewOrder, PlaceError, Shop};
use crate::domain::{Order, OrderState};

/// The name of the header that makes a repeated request the same order.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// POST /orders, POST /orders/{id}/pay, GET /orders/{id}.
pub fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(find))
        .route("/orders/{id}/pay", post(pay))
        .with_state(shop)
}

/// Where the outbox's dashboard is.
pub const DASHBOARD: &str = "/outbox";

/// The outbox's dashboard, to be nested at [`DASHBOARD`]. `origin` is the shop's own address.
///
/// Whoever reaches the shop may do everything there, so no other name of its address will do. In an application, read who it is from
/// what the login has put into the request's extensions.
pub fn dashboard(outbox: &Outbox, store: impl OutboxStore, origin: &str) -> Dashboard {
    let everybody = |_: &Parts| Some(Access::new("you", Rights::all()));
    Dashboard::new(outbox, store, everybody).origin(origin).lease_duration(LEASE_DURATION)
}

type Answer = (StatusCode, Json<Value>);

async fn place(
    State(shop): State<Shop>,
    headers: HeaderMap,
    body: Result<Json<NewOrder>, JsonRejection>,
) -> Result<Answer, Refusal> {
    let Json(new) = body.map_err(|error| Refusal(error.status(), error.body_text()))?;
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
    let key = key.to_owned();
    let placed = to_its_end(async move { shop.place(&key, &new).await }).await?;
    let status = if placed.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(body_of(&placed.order, placed.state))))
}

async fn find(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Answer, Refusal> {
    match shop.find(&id).await? {
        Some(row) => Ok((StatusCode::OK, Json(body_of(&row.order, row.state)))),
        None => Err(no_order(&id)),
    }
}

async fn pay(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Answer, Refusal> {
    let order_id = id.clone();
    match to_its_end(async move { shop.pay(&order_id).await }).await? {
        Payment::Paid(row) => Ok((StatusCode::OK, Json(body_of(&row.order, row.state)))),
        Payment::Closed => {
            Err(Refusal(StatusCode::CONFLICT, format!("order {id} was closed, because it was not paid in time")))
        }
        Payment::NoOrder => Err(no_order(&id)),
    }
}

/// Runs it to its end, also if the client hangs up: the handler is dropped then, in the middle of whatever it does.
pub(crate) async fn to_its_end<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(request).await.unwrap_or_else(|died| std::panic::resume_unwind(died.into_panic()))
}

fn no_order(id: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, format!("there is no order {id}"))
}

fn body_of(order: &Order, state: OrderState) -> Value {
    json!({
        "id": order.id,
        "state": state,
        "customer_id": order.customer_id,
        "product_id": order.product_id,
        "quantity": order.quantity,
        "coupon_id": order.coupon_id,
        "total_cents": order.total_cents,
    })
}

/// What a client is told instead.
struct Refusal(StatusCode, String);

impl From<PlaceError> for Refusal {
    fn from(error: PlaceError) -> Self {
        let status = match error {
            PlaceError::NoKey | PlaceError::Quantity(_) => StatusCode::BAD_REQUEST,
            PlaceError::UnknownProduct(_) | PlaceError::UnknownCoupon(_) => StatusCode::NOT_FOUND,
            PlaceError::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            PlaceError::CouponInUse(_) | PlaceError::NotEnough { .. } => StatusCode::CONFLICT,
            PlaceError::Later(ref reason) => {
                tracing::info!(reason, "an order was not placed");
                let text = "the order was not placed for now: repeat it with the same Idempotency-Key";
                return Self(StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
            }
        };
        Self(status, error.to_string())
    }
}

impl From<DatabaseError> for Refusal {
    fn from(error: DatabaseError) -> Self {
        tracing::info!(%error, "a request was not answered");
        Self(StatusCode::SERVICE_UNAVAILABLE, "the shop cannot say for now: repeat the request".to_owned())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}
