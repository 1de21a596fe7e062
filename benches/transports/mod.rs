//! Shared by the programs that measure one transport: a message, an outcome sink, the drain of a backlog.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::Limits;
use diesel_outbox::internals::limits::SEND_BATCH_ROWS_MAX;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{Outcome, OutcomeSender, Transport};
use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
use tokio::sync::Notify;

use crate::database;

/// The topic of all messages.
pub(crate) const TOPIC: &str = "bench";

/// The payload of an ordinary message.
pub(crate) const PAYLOAD_BYTES: usize = 500;

const TIMEOUT: Duration = Duration::from_secs(300);

/// Hands messages to a transport, and receives their outcomes.
pub(crate) struct TestSender(Arc<DeliveryCounter>);

/// As cheap as a relay's own outcome senders: a waiter for many is not woken for each.
#[derive(Default)]
struct DeliveryCounter {
    outcomes: AtomicUsize,
    wanted: AtomicUsize,
    enough: Notify,
    failure: Mutex<Option<String>>,
}

impl DeliveryCounter {
    fn note(&self, outcome: Outcome) {
        if !matches!(outcome, Outcome::Delivered) {
            *self.failure.lock().expect("not poisoned") = Some(format!("{outcome:?}"));
        }
        let count = self.outcomes.fetch_add(1, Ordering::SeqCst) + 1;
        if count == self.wanted.load(Ordering::SeqCst) {
            self.enough.notify_one();
        }
    }
}

impl TestSender {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn send(&self, transport: &impl Transport, number: usize) {
        let (envelope, sender) = self.message(number);
        transport.send(envelope, sender);
    }

    fn message(&self, number: usize) -> (Envelope, OutcomeSender) {
        let mut envelope = Envelope::new(MessageId::new(), TOPIC.into(), std::time::UNIX_EPOCH);
        envelope.key = Some(number.to_string());
        envelope.kind = "order.placed".to_owned();
        envelope.payload = Some(vec![b'x'; PAYLOAD_BYTES]);
        let counter = Arc::clone(&self.0);
        (envelope, OutcomeSender::new(move |outcome| counter.note(outcome)))
    }

    /// Waits until this many are delivered, of all that were ever handed over.
    pub(crate) async fn delivered(&self, messages: usize) -> Result<()> {
        self.0.wanted.store(messages, Ordering::SeqCst);
        while self.0.outcomes.load(Ordering::SeqCst) < messages {
            self.0.enough.notified().await;
        }
        match self.0.failure.lock().expect("not poisoned").take() {
            None => Ok(()),
            Some(outcome) => bail!("not delivered: {outcome}"),
        }
    }
}

/// The most messages that a relay has in flight.
pub(crate) fn relays_in_flight_max() -> usize {
    Limits::default().in_flight_max
}

/// Messages a second through a transport, fed like by a relay: in the relay's groups, with this many in flight, or the
/// transport's own limit if that is lower. Must run in a task, as a relay does.
pub(crate) async fn send_many(transport: impl Transport, messages: usize, in_flight_max: usize) -> Result<f64> {
    let in_flight_max = transport.in_flight_max().min(in_flight_max);
    transport.prepare(&[Topic::new(TOPIC)]).await?;
    let sender = TestSender::new();
    // Connects.
    sender.send(&transport, 0);
    sender.delivered(1).await?;
    let started = Instant::now();
    let mut sent = 0;
    while sent < messages {
        let group = SEND_BATCH_ROWS_MAX.min(messages - sent).min(in_flight_max);
        // Makes room for the group.
        sender.delivered((1 + sent + group).saturating_sub(in_flight_max)).await?;
        transport.send_all((sent..sent + group).map(|number| sender.message(number)).collect());
        sent += group;
    }
    sender.delivered(1 + messages).await?;
    Ok(messages as f64 / started.elapsed().as_secs_f64())
}

/// Writes a backlog for [`drain`].
pub(crate) async fn fill(postgres: &str, rows: usize) -> Result<()> {
    database::reset(postgres).await?;
    database::fill(postgres, TOPIC, i64::try_from(rows)?, PAYLOAD_BYTES, 0).await
}

/// Messages a second through a relay, until the last row of the backlog has left the table.
pub(crate) async fn drain(postgres: &str, rows: usize, transport: impl Transport) -> Result<f64> {
    let outbox = Outbox::builder().topic(Topic::new(TOPIC)).build()?;
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(postgres)).max_size(6).build()?;
    let started = Instant::now();
    let relay = outbox.relay().store(PostgresStore::new(pool)).transport(transport).start().await?;
    let mut elapsed = started.elapsed();
    while database::rows_left(postgres).await? > 0 {
        ensure!(elapsed < TIMEOUT, "not drained after {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        elapsed = started.elapsed();
    }
    relay.shutdown(Duration::from_secs(30)).await;
    Ok(rows as f64 / elapsed.as_secs_f64())
}
