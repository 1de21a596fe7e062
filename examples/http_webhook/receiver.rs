//! The receiver, as the service on the other side would write it: it knows of the outbox only what stands in the requests.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver as Visits, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::Failure;

/// How old a request may be: whoever has recorded one cannot play it again tomorrow.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// How long the receiver asks its senders to wait while it is busy.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request that the receiver has answered.
pub(crate) struct Visit {
    pub(crate) status: u16,
    /// The idempotency key, whoever sent it.
    pub(crate) key: String,
    pub(crate) at: Instant,
}

/// A service that takes orders, with a runtime of its own.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) visits: Visits<Visit>,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

struct Shared {
    secret: hmac::Key,
    visits: Sender<Visit>,
    book: Mutex<OrderBook>,
}

#[derive(Default)]
struct OrderBook {
    /// By idempotency key. A service keeps them in its database, in the transaction that does the work.
    orders: HashMap<String, Bytes>,
    was_busy: bool,
    has_lost_response: bool,
}

impl Receiver {
    pub(crate) fn start(secret: &[u8]) -> Result<Self, Failure> {
        let (sender, visits) = channel();
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let shared = Arc::new(Shared { secret, visits: sender, book: Mutex::default() });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/hooks/orders", post(take)).with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, visits, shared, _runtime: runtime })
    }

    /// The orders that it took, each once.
    pub(crate) fn orders(&self) -> Vec<Bytes> {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner).orders.values().cloned().collect()
    }
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let key = header(&headers, "idempotency-key").unwrap_or_default().to_owned();
    let status = if is_signed(&shared.secret, &headers, &body) {
        let mut book = shared.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.enter(&key, body)
    } else {
        StatusCode::UNAUTHORIZED
    };
    // Nobody listens any more only when the example is over.
    let _ = shared.visits.send(Visit { status: status.as_u16(), key, at: Instant::now() });
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            (status, [("retry-after", RETRY_AFTER.as_secs().to_string())]).into_response()
        }
        status => status.into_response(),
    }
}

impl OrderBook {
    /// Enters an order, unless it stands there already.
    fn enter(&mut self, key: &str, order: Bytes) -> StatusCode {
        if !std::mem::replace(&mut self.was_busy, true) {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        if self.orders.contains_key(key) {
            return StatusCode::CONFLICT;
        }
        self.orders.insert(key.to_owned(), order);
        // The order is taken, and a proxy on the way has lost patience: the sender cannot know.
        if std::mem::replace(&mut self.has_lost_response, true) { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT }
    }
}

/// Whether one who knows the secret wrote this request, lately, with this id and this body.
#[allow(clippy::disallowed_methods, reason = "a signature has a date")]
fn is_signed(secret: &hmac::Key, headers: &HeaderMap, body: &[u8]) -> bool {
    let [Some(id), Some(timestamp), Some(signatures)] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| header(headers, name))
    else {
        return false;
    };
    let written_at = timestamp.parse().ok().and_then(|s| UNIX_EPOCH.checked_add(Duration::from_secs(s)));
    let now = SystemTime::now();
    let is_fresh = written_at.is_some_and(|at| {
        let age = now.duration_since(at).unwrap_or_else(|ahead| ahead.duration());
        age <= AGE_MAX
    });
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    // Several, while a secret is replaced; `verify` takes the same time whatever is wrong.
    let mut signatures = signatures.split(' ').filter_map(|one| BASE64.decode(one.strip_prefix("v1,")?).ok());
    // The key is not signed, the id is: they have to be the same.
    is_fresh
        && header(headers, "idempotency-key") == Some(id)
        && signatures.any(|signature| hmac::verify(secret, &signed, &signature).is_ok())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
