//! An in-process broker, for tests.

mod fence;
mod fenced;
mod script;
mod state;

pub use script::ScriptedResponse;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::fenced::MemoryLane;
use self::state::{Inner, Sent};
use super::{DeliveredRows, FailureClass, FencedLane, LaneName, OutcomeSender, RowLookup, Transport, TransportError};
use crate::message::Envelope;
use crate::topic::Topic;

/// A transport that keeps what it delivers, and fails as its script says.
///
/// A cheap handle: clones share one log and one script. A test keeps one clone and gives the other to the relay.
/// Without a script every message is delivered at once, in the call to [`send`](Transport::send). A
/// [latency](Self::set_latency) uses tokio's time, which a test can pause.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use diesel_outbox::transport::{ScriptedResponse, FailureClass, MemoryTransport, Transport};
///
/// let broker = MemoryTransport::new();
/// broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Temporary));
/// broker.go_down();
/// assert_eq!(broker.probe().await.unwrap_err().class(), FailureClass::Connection);
/// broker.go_up();
/// assert!(broker.probe().await.is_ok());
/// assert!(broker.wait_for_delivered(1, Duration::from_millis(1)).await.is_err());
/// # })
/// ```
#[derive(Clone, Default)]
pub struct MemoryTransport {
    inner: Arc<Inner>,
}

/// Delivered and pending messages.
impl MemoryTransport {
    /// A broker that is up and accepts everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every message stored so far, in order. A message that was sent again appears again.
    pub fn delivered(&self) -> Vec<Envelope> {
        self.inner.state().stored.clone()
    }

    /// The messages stored for one topic.
    pub fn delivered_to(&self, topic: &str) -> Vec<Envelope> {
        self.inner.state().stored.iter().filter(|envelope| &*envelope.topic == topic).cloned().collect()
    }

    /// How many messages were handed over in all, whatever their outcome.
    pub fn sends(&self) -> usize {
        self.inner.state().sends
    }

    /// How many messages have no outcome yet.
    pub fn in_flight(&self) -> usize {
        self.inner.state().in_flight()
    }

    /// Waits until at least `count` messages are stored, and returns them all.
    ///
    /// # Errors
    /// Returns what is stored, if `within` is over.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for_delivered(&self, count: usize, within: Duration) -> Result<Vec<Envelope>, WaitTimedOut> {
        self.wait_until(|stored| stored.len() >= count, within).await
    }

    /// Waits until the stored messages meet a condition, and returns them all.
    ///
    /// # Errors
    /// Returns what is stored, if `within` is over.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_until(
        &self,
        mut reached: impl FnMut(&[Envelope]) -> bool,
        within: Duration,
    ) -> Result<Vec<Envelope>, WaitTimedOut> {
        let reached = self.inner.wait_until(|state| reached(&state.stored), within).await;
        self.waited(reached, within)
    }

    /// [`wait_for_delivered`](Self::wait_for_delivered) for tests without tokio. It blocks the thread.
    ///
    /// # Errors
    /// Returns what is stored, if `within` is over.
    pub fn wait_for_delivered_blocking(&self, count: usize, within: Duration) -> Result<Vec<Envelope>, WaitTimedOut> {
        let reached = self.inner.wait_until_blocking(|state| state.stored.len() >= count, within);
        self.waited(reached, within)
    }

    /// Waits until at least `count` messages were handed over, whatever their outcome. Shows a test that the relay
    /// tried.
    ///
    /// # Errors
    /// Returns what is stored, if `within` is over.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for_sends(&self, count: usize, within: Duration) -> Result<(), WaitTimedOut> {
        let reached = self.inner.wait_until(|state| state.sends >= count, within).await;
        self.waited(reached, within).map(drop)
    }

    fn waited(&self, reached: bool, within: Duration) -> Result<Vec<Envelope>, WaitTimedOut> {
        let stored = self.delivered();
        if reached { Ok(stored) } else { Err(WaitTimedOut { within, stored, sends: self.sends() }) }
    }
}

/// The script decides the outcome of messages. Rules are checked in the order they were added; the first match decides.
impl MemoryTransport {
    /// Answers the next `count` messages that no earlier rule matches.
    pub fn respond_next(&self, count: usize, response: ScriptedResponse) {
        self.inner.state().script.next(count, response);
    }

    /// Answers every message that `applies` matches, until [`clear_responses`](Self::clear_responses).
    pub fn respond_when(&self, response: ScriptedResponse, applies: impl FnMut(&Envelope) -> bool + Send + 'static) {
        self.inner.state().script.matching(response, applies);
    }

    /// Drops every rule; the broker accepts everything again.
    pub fn clear_responses(&self) {
        self.inner.state().script.clear();
    }

    /// Holds messages back, neither stored nor answered, until [`release`](Self::release).
    pub fn hold(&self) {
        self.inner.state().holding = true;
    }

    /// Releases the `count` oldest held messages; later ones are still held.
    pub fn release_next(&self, count: usize) {
        self.inner.release(count, true);
    }

    /// Releases every held message, and holds no more.
    pub fn release(&self) {
        self.inner.release(usize::MAX, false);
    }

    /// Until [`go_up`](Self::go_up) every send, probe and prepare fails with [`FailureClass::Connection`].
    pub fn go_down(&self) {
        self.go_down_as(FailureClass::Connection);
    }

    /// [`go_down`](Self::go_down) with another class, for instance [`FailureClass::Authentication`].
    pub fn go_down_as(&self, class: FailureClass) {
        self.inner.state().down = Some(class);
    }

    /// Ends [`go_down`](Self::go_down).
    pub fn go_up(&self) {
        self.inner.state().down = None;
    }

    /// How long a message takes from now on. Anything but zero makes [`send`](Transport::send) need a tokio runtime
    /// with time.
    pub fn set_latency(&self, latency: Duration) {
        self.inner.state().latency = latency;
    }

    /// How many messages may be without an outcome; further ones are [`Busy`](super::Outcome::Busy). No limit by
    /// default.
    pub fn set_queue_max(&self, messages: usize) {
        self.inner.state().queue_max = messages;
    }

    /// Sets what [`delivery_timeout`](Transport::delivery_timeout) returns; 25 s by default. Nothing times out because
    /// of it.
    pub fn set_delivery_timeout(&self, timeout: Duration) {
        self.inner.state().delivery_timeout = timeout;
    }
}

#[async_trait]
impl Transport for MemoryTransport {
    fn system(&self) -> &'static str {
        "memory"
    }

    fn delivery_timeout(&self) -> Duration {
        self.inner.state().delivery_timeout
    }

    async fn prepare(&self, _topics: &[Topic]) -> Result<(), TransportError> {
        self.inner.is_up()
    }

    /// # Panics
    /// Panics with a latency outside a tokio runtime.
    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        Inner::take(&self.inner, Sent { envelope, sender, lane: None });
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.inner.is_up()
    }

    fn supports_fencing(&self) -> bool {
        true
    }

    /// Messages that an earlier owner sent to the lane, and that are [held](Self::hold) or in transit, are refused when
    /// they arrive.
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        self.inner.is_up()?;
        Ok(Arc::new(MemoryLane::new(&self.inner, lane)))
    }

    fn supports_exactly_once(&self) -> bool {
        true
    }

    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let fenced = self.fence(lane.clone()).await?;
        let delivered = {
            let mut state = self.inner.state();
            let delivered = state.once.entry(lane.clone()).or_default();
            delivered.forget_settled();
            delivered.ids().collect()
        };
        let existing = rows.existing(delivered).await?;
        self.inner.state().once.insert(lane, DeliveredRows::of(existing));
        Ok(fenced)
    }

    async fn flush(&self, within: Duration) -> usize {
        self.inner.wait_until(|state| state.in_flight() == 0, within).await;
        self.in_flight()
    }
}

impl fmt::Debug for MemoryTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state();
        f.debug_struct("MemoryTransport")
            .field("stored", &state.stored.len())
            .field("sends", &state.sends)
            .field("in_flight", &state.in_flight())
            .field("down", &state.down)
            .finish_non_exhaustive()
    }
}

/// A wait on a [`MemoryTransport`] timed out.
#[derive(Debug, thiserror::Error)]
#[error("after {within:?} the broker had received {sends} messages and stored {}", stored.len())]
pub struct WaitTimedOut {
    /// How long the wait was.
    pub within: Duration,
    /// What was stored by then.
    pub stored: Vec<Envelope>,
    /// How many messages were handed over by then.
    pub sends: usize,
}
