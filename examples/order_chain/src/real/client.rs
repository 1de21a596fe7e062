//! Customers reach the shops by HTTP.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::Failure;
use crate::load::client::{Answer, Ask, Client, request};

/// After this a customer gives the request up, and repeats it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Several shops, taken in turn.
#[derive(Debug)]
pub(super) struct Shops {
    addresses: Vec<SocketAddr>,
    next: AtomicUsize,
    client: HttpClient<HttpConnector, Body>,
}

impl Shops {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        let client = HttpClient::builder(TokioExecutor::new()).build_http();
        Self { addresses, next: AtomicUsize::new(0), client }
    }
}

#[async_trait]
impl Client for Shops {
    async fn send(&self, ask: &Ask) -> Result<Answer, Failure> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        let request = request(&format!("http://{}", self.addresses[turn]), ask)?;
        let answer = async {
            let response = self.client.request(request).await?;
            let status = response.status();
            let bytes = response.into_body().collect().await?.to_bytes();
            Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
        };
        timeout(PATIENCE, answer).await?
    }
}
