//! How customers reach the shop.

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt;

use crate::Failure;
use crate::embedded::join;
use crate::shop::web::IDEMPOTENCY_KEY;

/// The largest answer.
const BODY_MAX: usize = 64 * 1024;

/// A request to the shop.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Its path.
    pub path: String,
    /// Its header.
    pub key: Option<String>,
    /// Its body; with it the request is a POST.
    pub body: Option<Value>,
}

impl Ask {
    /// POST /orders.
    pub fn place(key: &str, body: Value) -> Self {
        Self { path: "/orders".to_owned(), key: Some(key.to_owned()), body: Some(body) }
    }

    /// POST /orders/{id}/pay.
    pub fn pay(order_id: &str) -> Self {
        Self { path: format!("/orders/{order_id}/pay"), key: None, body: Some(Value::Null) }
    }

    /// GET /orders/{id}.
    pub fn find(order_id: &str) -> Self {
        Self { path: format!("/orders/{order_id}"), ..Self::default() }
    }
}

/// An answer of the shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Value,
}

/// A way to the shop.
#[async_trait]
pub trait Client: Send + Sync {
    /// Sends a request, and waits for its answer.
    async fn send(&self, ask: &Ask) -> Result<Answer, Failure>;
}

/// A shop in this process. If the request dies there, there is no answer, as if the shop's process had died.
#[derive(Debug, Clone)]
pub struct InProcess(pub Router);

#[async_trait]
impl Client for InProcess {
    async fn send(&self, ask: &Ask) -> Result<Answer, Failure> {
        let request = request("", ask)?;
        let router = self.0.clone();
        // In a task of its own, which can die alone.
        let response = join(tokio::spawn(router.oneshot(request))).await.ok_or("the shop died")??;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), BODY_MAX).await?;
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}

/// `base` is the address of the shop; empty for one in this process.
pub(crate) fn request(base: &str, ask: &Ask) -> Result<Request<Body>, Failure> {
    let method = if ask.body.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{base}{}", ask.path))
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(key) = &ask.key {
        request = request.header(IDEMPOTENCY_KEY, key);
    }
    let body = ask.body.as_ref().map_or_else(Body::empty, |body| Body::from(body.to_string()));
    Ok(request.body(body)?)
}
