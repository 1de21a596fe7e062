//! A real HTTP server that does as a test says. It has a runtime of its own, and dies with it: listener, connections and all.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use futures_util::stream::{self, StreamExt as _};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(20);

pub(in crate::transport) const LIMIT_BYTES: usize = 1_000;

/// A request as it came.
#[derive(Debug, Clone)]
pub(in crate::transport) struct Received {
    pub(in crate::transport) method: Method,
    pub(in crate::transport) uri: Uri,
    pub(in crate::transport) headers: HeaderMap,
    pub(in crate::transport) body: Bytes,
}

impl Received {
    pub(in crate::transport) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// What becomes of a request.
#[derive(Debug, Clone)]
pub(in crate::transport) enum Reply {
    Status(u16),
    With(u16, &'static [(&'static str, &'static str)]),
    Body(u16, Vec<u8>),
    /// 200, and a body that goes on for ever.
    Endless,
    /// 200, the beginning of a body, and nothing more.
    Stalled,
    /// Nothing until [`Receiver::release`].
    Hang,
}

type Rule = Box<dyn FnMut(&Received) -> Option<Reply> + Send>;

struct Shared {
    received: watch::Sender<Vec<Received>>,
    next: Mutex<VecDeque<Reply>>,
    rule: Mutex<Rule>,
    released: watch::Sender<bool>,
    in_flight: AtomicUsize,
    peak: AtomicUsize,
}

pub(in crate::transport) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Mutex<Option<Runtime>>,
}

impl Receiver {
    pub(in crate::transport) fn start() -> Self {
        let shared = Shared {
            received: watch::Sender::new(Vec::new()),
            next: Mutex::default(),
            rule: Mutex::new(Box::new(|_| None)),
            released: watch::Sender::new(false),
            in_flight: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut receiver = Self { address, shared: Arc::new(shared), runtime: Mutex::default() };
        receiver.address = receiver.listen();
        receiver
    }

    fn listen(&self) -> SocketAddr {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (address, shared) = (self.address, Arc::clone(&self.shared));
        let (bound, bound_address) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::bind(address).await.unwrap();
            bound.send(listener.local_addr().unwrap()).unwrap();
            let router = Router::new().fallback(answer).layer(DefaultBodyLimit::max(LIMIT_BYTES)).with_state(shared);
            axum::serve(listener, router).await.unwrap();
        });
        *self.runtime.lock().unwrap() = Some(runtime);
        bound_address.recv_timeout(DEADLINE).expect("the receiver listens")
    }

    /// Ends at once, in the middle of whatever it does.
    pub(in crate::transport) fn kill(&self) {
        let runtime = self.runtime.lock().unwrap().take();
        // Waits until the tasks are gone, on a thread that may wait.
        std::thread::spawn(|| drop(runtime)).join().unwrap();
    }

    /// Listens again where it did.
    pub(in crate::transport) fn restart(&self) {
        self.listen();
    }

    pub(in crate::transport) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(in crate::transport) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Answers the next requests so.
    pub(in crate::transport) fn reply_next(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.next.lock().unwrap().extend(replies);
    }

    /// Asks `rule` what becomes of a request; `None` is 200.
    pub(in crate::transport) fn reply_by(&self, rule: impl FnMut(&Received) -> Option<Reply> + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    pub(in crate::transport) fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// What came so far, without probes.
    pub(in crate::transport) fn received(&self) -> Vec<Received> {
        self.shared.received.borrow().clone()
    }

    pub(in crate::transport) async fn until_received(&self, count: usize) -> Vec<Received> {
        let mut received = self.shared.received.subscribe();
        // Its guard must be gone before `received` takes another: a request in between would wait for the first, and block the second.
        let is_reached = timeout(DEADLINE, received.wait_for(|received| received.len() >= count)).await.is_ok();
        assert!(is_reached, "{} requests of {count}", self.received().len());
        self.received()
    }

    /// The most requests that were under way at once.
    pub(in crate::transport) fn peak(&self) -> usize {
        self.shared.peak.load(Ordering::Acquire)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Counts a request until its handler is gone.
struct InFlightGuard(Arc<Shared>);

impl InFlightGuard {
    fn enter(shared: &Arc<Shared>) -> Self {
        let now = shared.in_flight.fetch_add(1, Ordering::AcqRel) + 1;
        shared.peak.fetch_max(now, Ordering::AcqRel);
        Self(Arc::clone(shared))
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let _in_flight = InFlightGuard::enter(&shared);
    let received = Received { method, uri, headers, body };
    let probe = received.method == Method::HEAD;
    let next = if probe { None } else { shared.next.lock().unwrap().pop_front() };
    let reply = next.or_else(|| (shared.rule.lock().unwrap())(&received)).unwrap_or(Reply::Status(200));
    if !probe {
        shared.received.send_modify(|all| all.push(received));
    }
    if matches!(reply, Reply::Hang) {
        // The sender is in `shared`: it cannot be gone.
        let _ = shared.released.subscribe().wait_for(|released| *released).await;
    }
    response(reply)
}

fn response(reply: Reply) -> Response<Body> {
    let with = |status: u16| Response::builder().status(StatusCode::from_u16(status).unwrap());
    let stream = |chunks: stream::BoxStream<'static, Bytes>| Body::from_stream(chunks.map(Ok::<_, Infallible>));
    let body = || Bytes::from_static(&[b'x'; 1_024]);
    match reply {
        Reply::Status(status) => with(status).body(Body::empty()),
        Reply::With(status, headers) => {
            let begun = headers.iter().fold(with(status), |begun, (name, value)| begun.header(*name, *value));
            begun.body(Body::empty())
        }
        Reply::Body(status, body) => with(status).body(Body::from(body)),
        Reply::Endless => with(200).body(stream(stream::repeat(body()).boxed())),
        Reply::Stalled => with(200).body(stream(stream::iter([body()]).chain(stream::pending()).boxed())),
        Reply::Hang => with(200).body(Body::empty()),
    }
    .unwrap()
}
