use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;
use tokio::time::timeout;

use super::batch::Content;
use super::classify::CallError;
use super::queues::Queue;

/// A call of the client library.
pub(super) type Call<'a, T> = BoxFuture<'a, Result<T, CallError>>;

/// A connection of the client library. It is a trait object, so that the library's types, which are nested beyond the
/// compiler's usual limit, stay behind it, and so that tests can use a failing one.
///
/// Its functions are not async: inside an async function of a trait, the compiler took 60 s to find that the library's futures are
/// `Send`, which was half of the whole build. Elsewhere it takes less than one. A call does nothing of the library's before it is polled:
/// only then is a panic caught.
pub(super) trait Connection: Send + Sync {
    /// Sends messages of one topic in one request.
    fn send(&self, content: Content, topic: &str, queue: &Queue) -> Call<'_, SendStatus>;

    /// Sends a half message. The broker hides it until it is committed.
    fn send_half(&self, message: Message, topic: &str, queue: &Queue) -> Call<'_, StoredHalf>;

    /// The brokers of a topic; `None` if the name servers know no such topic.
    fn route(&self, topic: &str) -> Call<'_, Option<TopicRouteData>>;

    /// Sends a request to the node at `address`. Returns the answer's body; `None` if there is no such topic.
    fn request(&self, address: &str, code: i32, fields: Fields<'_>, body: Vec<u8>) -> Call<'_, Option<Vec<u8>>>;

    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Where a broker stores a half message, in the form that its later requests need.
#[derive(Debug, Clone)]
pub(super) struct StoredHalf {
    pub(super) status: SendStatus,
    pub(super) queue_offset: u64,
    pub(super) log_offset: u64,
    pub(super) client_id: String,
    pub(super) transaction_id: String,
}

/// Names and values of a request's fields.
pub(super) type Fields<'a> = &'a [(&'a str, String)];

/// Opens a connection of the library.
pub(super) type Connect = Box<dyn Fn() -> Call<'static, Arc<dyn Connection>> + Send + Sync>;

/// A connection that does not rely on the library's time-outs: neither a lost answer nor a panic may keep a message.
pub(super) struct GuardedConnection {
    inner: Arc<dyn Connection>,
    call_timeout: Duration,
}

impl GuardedConnection {
    /// Opens a connection whose calls each take at most `call_timeout`.
    pub(super) async fn open(open: &Connect, call_timeout: Duration) -> Result<Self, CallError> {
        Ok(Self { inner: call_guarded(open(), call_timeout).await?, call_timeout })
    }
}

impl Connection for GuardedConnection {
    fn send(&self, content: Content, topic: &str, queue: &Queue) -> Call<'_, SendStatus> {
        Box::pin(call_guarded(self.inner.send(content, topic, queue), self.call_timeout))
    }

    fn send_half(&self, message: Message, topic: &str, queue: &Queue) -> Call<'_, StoredHalf> {
        Box::pin(call_guarded(self.inner.send_half(message, topic, queue), self.call_timeout))
    }

    fn route(&self, topic: &str) -> Call<'_, Option<TopicRouteData>> {
        Box::pin(call_guarded(self.inner.route(topic), self.call_timeout))
    }

    fn request(&self, address: &str, code: i32, fields: Fields<'_>, body: Vec<u8>) -> Call<'_, Option<Vec<u8>>> {
        Box::pin(call_guarded(self.inner.request(address, code, fields, body), self.call_timeout))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let closed = self.inner.close().map(Ok).boxed();
        // The connection is dropped either way; what it leaves behind ends with its runtime.
        Box::pin(call_guarded(closed, self.call_timeout).map(drop))
    }
}

/// Calls the library. A panic or a time-out becomes an error.
pub(super) async fn call_guarded<T>(call: Call<'_, T>, within: Duration) -> Result<T, CallError> {
    match timeout(within, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(done)) => done,
        Ok(Err(_panic)) => Err(CallError::panicked()),
        Err(_elapsed) => Err(CallError::request_timed_out(within)),
    }
}
