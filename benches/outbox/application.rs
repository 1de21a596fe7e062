//! The application of the benches: its event, outbox, relay and pool.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::internals::metrics;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTransport, Transport};
use diesel_outbox::{CodecError, Envelope, Limits, MessageId, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::cloudevents::{CloudEvents, cloud_events};

use crate::recorder::Recorder;

/// Connections of the relay's pool: two claims, two settles, a confirm, one other, and one that the relay leaves to others.
pub(crate) const RELAY_CONNECTIONS: usize = 7;

/// The payload of an ordinary message.
pub(crate) const PAYLOAD_BYTES: usize = 500;

/// An event of 500 bytes that needs no encoding: the cost of a codec is not the outbox's.
#[derive(Debug)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: i64,
    pub(crate) topic: &'static str,
}

impl OutboxMessage for OrderPlaced {
    const TOPIC: Option<&'static str> = None;
    const KIND: &'static str = "order.placed";

    fn topic(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.topic)
    }
    fn key(&self) -> Option<Cow<'_, str>> {
        Some(self.order_id.to_string().into())
    }
    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(Some(json_payload()))
    }
}

/// A JSON string of [`PAYLOAD_BYTES`]: CloudEvents look whether it is JSON.
fn json_payload() -> Vec<u8> {
    let mut payload = vec![b'x'; PAYLOAD_BYTES];
    (payload[0], payload[PAYLOAD_BYTES - 1]) = (b'"', b'"');
    payload
}

/// The envelope that a relay makes of such an event, except for its key.
#[expect(clippy::disallowed_methods, reason = "a record says to people when its row was written")]
pub(crate) fn envelope(topic: &str) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::now());
    envelope.kind = OrderPlaced::KIND.to_owned();
    envelope.payload = Some(vec![b'x'; PAYLOAD_BYTES]);
    envelope
}

pub(crate) fn outbox(topics: &[&str]) -> Result<Outbox> {
    let builder = topics.iter().fold(Outbox::builder(), |builder, topic| builder.topic(Topic::new(*topic)));
    builder.build().context("build the outbox")
}

/// An outbox whose topic keeps sent messages.
pub(crate) fn outbox_with_history(topic: &str) -> Result<Outbox> {
    Outbox::builder().topic(Topic::new(topic).keep_sent_days(7)).build().context("build the outbox")
}

pub(crate) async fn start_relay(outbox: &Outbox, url: &str, transport: impl Transport) -> Result<Relay> {
    start_relay_with(outbox, url, transport, Limits::default()).await
}

pub(crate) async fn start_relay_with(
    outbox: &Outbox,
    url: &str,
    transport: impl Transport,
    limits: Limits,
) -> Result<Relay> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url);
    let store = PostgresStore::new(Pool::builder(manager).max_size(RELAY_CONNECTIONS).build()?);
    outbox.relay().store(store).transport(transport).limits(limits).start().await.context("start the relay")
}

pub(crate) fn kafka(bootstrap: &str) -> Result<KafkaTransport> {
    kafka_with(KafkaConfig::new(bootstrap))
}

/// A transport that sends CloudEvents.
pub(crate) fn kafka_cloud_events(bootstrap: &str) -> Result<CloudEvents<KafkaTransport>> {
    Ok(cloud_events(kafka(bootstrap)?, "/bench"))
}

/// A transport with a single request in flight to each broker: the client batches meanwhile.
pub(crate) fn kafka_one_by_one(bootstrap: &str) -> Result<KafkaTransport> {
    kafka_with(KafkaConfig::new(bootstrap).set("max.in.flight.requests.per.connection", "1"))
}

/// A transport with a time-out of 5 s, so that a lane's next owner waits no longer either.
pub(crate) fn kafka_with_short_timeout(bootstrap: &str) -> Result<KafkaTransport> {
    kafka_with(KafkaConfig::new(bootstrap).set("message.timeout.ms", "5000"))
}

fn kafka_with(config: KafkaConfig) -> Result<KafkaTransport> {
    KafkaTransport::new(config).context("build the Kafka transport")
}

/// The limits for such a transport: lanes are leased for 5 s.
pub(crate) fn fast_takeover_limits() -> Limits {
    Limits::default().lane_lease_duration(Duration::from_secs(5))
}

/// Waits until the relay owns this many lanes: it takes them at its start.
pub(crate) async fn wait_for_lanes(relay: &Relay, lanes: u16) -> Result<()> {
    let owns = || {
        let status = relay.status();
        let owned = status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).count();
        (owned >= usize::from(lanes)).then_some(())
    };
    until(owns, Duration::from_secs(30)).await.context("the relay takes its lanes")
}

/// Polls until there is a value.
pub(crate) async fn until<T>(mut poll: impl FnMut() -> Option<T>, within: Duration) -> Result<T> {
    let end = Instant::now() + within;
    loop {
        if let Some(found) = poll() {
            return Ok(found);
        }
        ensure!(Instant::now() < end, "it did not happen within {within:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Stops a relay in order. A remaining message would mean that the leg measured something else.
pub(crate) async fn stop_relay(relay: Relay) {
    relay.shutdown(Duration::from_secs(30)).await;
}

/// Waits until this many messages are acknowledged, by the relay's own counter.
pub(crate) async fn delivered(recorder: &Recorder, count: u64, within: Duration) -> Result<()> {
    let end = Instant::now() + within;
    loop {
        let so_far = recorder.count(metrics::DELIVERED);
        if so_far >= count {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{so_far} of {count} delivered after {within:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
