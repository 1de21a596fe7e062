//! An HTTP receiver that keeps the headers of each request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tokio::runtime::Runtime;

type Received = Arc<Mutex<Vec<HeaderMap>>>;

pub(crate) struct HttpReceiver {
    received: Received,
    pub(crate) url: String,
    /// It runs here.
    _runtime: Runtime,
}

impl HttpReceiver {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (runtime, received) = (runtime.expect("a runtime"), Received::default());
        let router = Router::new().fallback(receive).with_state(Arc::clone(&received));
        let listener = runtime.block_on(tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        let listener = listener.expect("a port");
        let url = format!("http://{}/orders", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { received, url, _runtime: runtime }
    }

    pub(crate) fn received(&self) -> Vec<HeaderMap> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn receive(State(received): State<Received>, headers: HeaderMap) -> StatusCode {
    received.lock().unwrap_or_else(PoisonError::into_inner).push(headers);
    StatusCode::OK
}
