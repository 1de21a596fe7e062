//! The HTTP transport: the suite against a real server, and what is particular to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where, and needs no more words")]

mod answers;
mod config;
mod hosts;
pub(super) mod receiver;
mod refusals;
mod relayed;
mod requests;
mod tls;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest, transport::cases};
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, HttpTransportBuilder, Transport, header};
use diesel_outbox::{Envelope, MessageId};

use self::receiver::{LIMIT_BYTES, Received, Receiver, Reply};

const DEADLINE: Duration = Duration::from_secs(20);
const TOKEN: &str = "swordfish";

fn envelope(topic: &str) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), std::time::SystemTime::UNIX_EPOCH);
    envelope.payload = Some(b"{}".to_vec());
    envelope
}

/// Sends one message and waits for what becomes of it.
async fn sent(transport: &dyn Transport, envelope: Envelope) -> RecordedOutcome {
    let outcomes = OutcomeRecorder::new();
    outcomes.send(transport, 0, envelope);
    let (_, seen) = outcomes.wait_for(1, DEADLINE).await.swap_remove(0);
    seen
}

/// One transport to one URL of the receiver.
fn to(receiver: &Receiver) -> HttpTransport {
    HttpTransport::builder().default_target(HttpTarget::new(receiver.url("/"))).build().unwrap()
}

struct Http {
    receiver: Receiver,
    unknown: Arc<Mutex<Option<String>>>,
    is_silent: Arc<AtomicBool>,
}

impl Http {
    fn builder(&self, token: &str) -> HttpTransportBuilder {
        let target = HttpTarget::new(self.receiver.url("/"))
            .created_at_header()
            .header("authorization", format!("Bearer {token}"));
        HttpTransport::builder()
            .default_target(target)
            .timeout(Duration::from_secs(3))
            .queue_timeout(Duration::from_secs(10))
    }
}

/// A request as the message that it was.
fn stored(received: &Received) -> StoredMessage {
    let of_http = ["host", "content-length", "content-type", "user-agent", "accept", "authorization"];
    let (mut headers, mut key, mut tombstone) = (Vec::new(), None, false);
    for (name, value) in &received.headers {
        let plain = value.as_bytes().to_vec();
        let (name, value) = match name.as_str().strip_suffix("-b64") {
            Some(name) => (name, BASE64.decode(plain).unwrap()),
            None => (name.as_str(), plain),
        };
        match name {
            "outbox-topic" => {}
            "idempotency-key" => headers.push((header::MESSAGE_ID.to_owned(), value)),
            "outbox-key" => key = Some(value),
            "outbox-tombstone" => tombstone = true,
            name if of_http.contains(&name) => {}
            name => headers.push((name.to_owned(), value)),
        }
    }
    let own = [header::MESSAGE_ID, header::KIND, header::ATTEMPT, header::CREATED_AT, header::DELIVER_AT];
    headers.sort_by_key(|(name, _)| own.iter().position(|own| own == name).unwrap_or(own.len()));
    StoredMessage { key, payload: (!tombstone).then(|| received.body.to_vec()), headers, timestamp: None }
}

#[async_trait]
impl TransportUnderTest for Http {
    fn transport(&self) -> Box<dyn Transport> {
        Box::new(self.builder(TOKEN).build().unwrap())
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        // One that was refused is not stored.
        let taken =
            |received: &&Received| received.header("outbox-topic") == Some(topic) && received.body.len() <= LIMIT_BYTES;
        self.receiver.received().iter().filter(taken).map(stored).collect()
    }

    async fn go_down(&self) -> bool {
        self.receiver.kill();
        true
    }

    async fn go_up(&self) {
        self.receiver.restart();
    }

    async fn freeze(&self) -> bool {
        self.is_silent.store(true, Ordering::Release);
        true
    }

    async fn unfreeze(&self) {
        self.is_silent.store(false, Ordering::Release);
        self.receiver.release();
    }

    fn oversized_payload_bytes(&self) -> Option<usize> {
        Some(LIMIT_BYTES + 1)
    }

    fn refusal(&self) -> FailureClass {
        FailureClass::Record
    }

    async fn unknown_topic(&self) -> Option<String> {
        *self.unknown.lock().unwrap() = Some("unknown".to_owned());
        Some("unknown".to_owned())
    }

    async fn create_topic(&self, _name: &str) -> bool {
        *self.unknown.lock().unwrap() = None;
        true
    }

    fn transport_with_queue_max(&self, messages: usize) -> Option<Box<dyn Transport>> {
        Some(Box::new(self.builder(TOKEN).queue_max(messages).build().unwrap()))
    }

    fn unauthorized_transport(&self) -> Option<(Box<dyn Transport>, Vec<String>)> {
        let secret = "hunter2-hunter2";
        Some((Box::new(self.builder(secret).build().unwrap()), vec![secret.to_owned()]))
    }
}

/// Logs in, with a wrong token too; everything that is to be kept secret.
pub(super) async fn logs_in() -> Vec<String> {
    const KEY: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const PATH: &str = "path-words";
    let http = conformance::open().await.unwrap();
    cases::prepare_is_idempotent_and_probe_succeeds(&http).await;
    cases::authentication_failure_hides_secrets(&http).await;
    let target = HttpTarget::new(http.receiver.url(&format!("/{PATH}"))).sign(format!("whsec_{KEY}"));
    let target = target.header("authorization", format!("Bearer {TOKEN}"));
    let transport = HttpTransport::builder().default_target(target).build().unwrap();
    assert_eq!(sent(&transport, envelope("orders")).await, RecordedOutcome::Delivered);
    http.receiver.kill();
    assert_ne!(sent(&transport, envelope("orders")).await, RecordedOutcome::Delivered);
    let (_, mut secrets) = http.unauthorized_transport().unwrap();
    secrets.extend([TOKEN, KEY, PATH].map(str::to_owned));
    secrets
}

mod conformance {
    use super::{Arc, AtomicBool, Http, Mutex, Ordering, Receiver, Reply, TOKEN};

    pub(super) async fn open() -> Option<Http> {
        let (receiver, unknown) = (Receiver::start(), Arc::new(Mutex::new(None::<String>)));
        let is_silent = Arc::<AtomicBool>::default();
        let (is_unknown, says_nothing) = (Arc::clone(&unknown), Arc::clone(&is_silent));
        receiver.reply_by(move |received| {
            let let_in = received.header("authorization") == Some(format!("Bearer {TOKEN}").as_str());
            let topic = received.header("outbox-topic");
            if says_nothing.load(Ordering::Acquire) {
                return Some(Reply::Hang);
            }
            match topic.is_some() && topic == is_unknown.lock().unwrap().as_deref() {
                _ if !let_in => Some(Reply::Status(401)),
                true => Some(Reply::Status(404)),
                false => None,
            }
        });
        Some(Http { receiver, unknown, is_silent })
    }

    // Nothing can be fenced at a receiver.
    diesel_outbox::transport_conformance_tests! { open; without
        fencing_a_lane_shuts_out_the_previous_owner,
        fenced_lane_keeps_the_order_of_a_sequence,
        refused_message_stops_only_its_own_sequence,
        exactly_once_lane_sends_no_row_twice,
    }
}
