//! The memory transport: the suite, and its script.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse, Transport};
use diesel_outbox::{Envelope, MessageId};

const DEADLINE: Duration = Duration::from_secs(5);

fn send(broker: &MemoryTransport, outcomes: &Arc<OutcomeRecorder>, id: i64, key: &str) {
    let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    envelope.key = Some(key.to_owned());
    outcomes.send(broker, id, envelope);
}

/// An outcome without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutcomeKind {
    Delivered,
    Busy,
    Failed(FailureClass),
}

fn seen(outcomes: &OutcomeRecorder) -> Vec<(i64, OutcomeKind)> {
    let without_text = |seen| match seen {
        RecordedOutcome::Delivered => OutcomeKind::Delivered,
        RecordedOutcome::Busy => OutcomeKind::Busy,
        RecordedOutcome::Failed { class, .. } => OutcomeKind::Failed(class),
    };
    outcomes.seen().into_iter().map(|(id, seen)| (id, without_text(seen))).collect()
}

fn keys(broker: &MemoryTransport) -> Vec<String> {
    broker.delivered().into_iter().filter_map(|envelope| envelope.key).collect()
}

#[test]
fn without_a_script_it_delivers_at_once() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    send(&broker, &outcomes, 1, "a");
    assert_eq!(seen(&outcomes), [(1, OutcomeKind::Delivered)]);
    assert_eq!(keys(&broker), ["a"]);
    assert_eq!(broker.delivered_to("orders").len(), 1);
    assert_eq!(broker.delivered_to("other").len(), 0);
}

#[test]
fn scripted_responses_apply_in_order_and_are_used_up() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    broker.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), |e| e.key.as_deref() == Some("bad"));
    broker.respond_next(1, ScriptedResponse::Busy);
    broker.respond_next(1, ScriptedResponse::StoreThenFail(FailureClass::Temporary));
    for (id, key) in [(1, "bad"), (2, "a"), (3, "b"), (4, "c"), (5, "bad")] {
        send(&broker, &outcomes, id, key);
    }
    let expected = [
        (1, OutcomeKind::Failed(FailureClass::RecordRefused)),
        (2, OutcomeKind::Busy),
        (3, OutcomeKind::Failed(FailureClass::Temporary)),
        (4, OutcomeKind::Delivered),
        (5, OutcomeKind::Failed(FailureClass::RecordRefused)),
    ];
    assert_eq!(seen(&outcomes), expected);
    assert_eq!(keys(&broker), ["b", "c"], "the lost acknowledgement is of a stored message");
    broker.clear_responses();
    send(&broker, &outcomes, 6, "bad");
    assert_eq!(seen(&outcomes)[5], (6, OutcomeKind::Delivered));
}

#[tokio::test]
async fn held_messages_wait_for_their_release_in_order() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    broker.hold();
    (1..=3).for_each(|id| send(&broker, &outcomes, id, &id.to_string()));
    assert_eq!((seen(&outcomes).len(), broker.in_flight()), (0, 3));
    broker.release_next(1);
    assert_eq!(seen(&outcomes), [(1, OutcomeKind::Delivered)]);
    broker.go_down();
    broker.release();
    let lost = OutcomeKind::Failed(FailureClass::Connection);
    assert_eq!(seen(&outcomes)[1..], [(2, lost), (3, lost)], "what counts is the broker at the release");
    assert_eq!(broker.flush(DEADLINE).await, 0);
}

#[tokio::test]
async fn send_probe_and_prepare_fail_while_the_transport_is_down() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    broker.go_down_as(FailureClass::Authentication);
    send(&broker, &outcomes, 1, "a");
    assert_eq!(seen(&outcomes), [(1, OutcomeKind::Failed(FailureClass::Authentication))]);
    assert_eq!(broker.probe().await.unwrap_err().class(), FailureClass::Authentication);
    assert_eq!(broker.prepare(&[]).await.unwrap_err().class(), FailureClass::Authentication);
    broker.go_up();
    broker.probe().await.unwrap();
    broker.prepare(&[]).await.unwrap();
    send(&broker, &outcomes, 2, "a");
    assert_eq!(seen(&outcomes)[1], (2, OutcomeKind::Delivered));
}

#[tokio::test(start_paused = true)]
async fn unanswered_messages_are_counted_by_flush_and_failed_at_the_end() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    broker.respond_next(1, ScriptedResponse::Silence);
    send(&broker, &outcomes, 1, "a");
    send(&broker, &outcomes, 2, "b");
    assert_eq!(broker.flush(DEADLINE).await, 1);
    assert_eq!(seen(&outcomes), [(2, OutcomeKind::Delivered)]);
    drop(broker);
    assert_eq!(seen(&outcomes)[1], (1, OutcomeKind::Failed(FailureClass::Temporary)));
}

#[tokio::test(start_paused = true)]
async fn latency_runs_on_virtual_time_and_keeps_the_order() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    broker.set_latency(Duration::from_secs(3_600));
    (0..100).for_each(|id| send(&broker, &outcomes, id, &id.to_string()));
    assert_eq!(broker.sends(), 100);
    assert!(seen(&outcomes).is_empty());
    let started = tokio::time::Instant::now();
    let delivered = broker.wait_for_delivered(100, Duration::from_secs(3_601)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(3_600));
    let order: Vec<_> = delivered.into_iter().filter_map(|envelope| envelope.key).collect();
    assert_eq!(order, (0..100).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_queue_is_busy_and_accepts_nothing() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    broker.set_queue_max(2);
    broker.hold();
    (1..=3).for_each(|id| send(&broker, &outcomes, id, &id.to_string()));
    assert_eq!(seen(&outcomes), [(3, OutcomeKind::Busy)]);
    broker.release();
    assert_eq!(keys(&broker), ["1", "2"]);
}

#[test]
fn a_timed_out_wait_reports_what_was_delivered() {
    let (broker, outcomes) = (MemoryTransport::new(), OutcomeRecorder::new());
    send(&broker, &outcomes, 1, "a");
    broker.wait_for_delivered_blocking(1, DEADLINE).unwrap();
    let error = broker.wait_for_delivered_blocking(2, Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.to_string(), "after 1ms the broker had received 1 messages and stored 1");
}

/// The memory broker, with the faults that the suite asks for as rules of its script.
struct Memory(MemoryTransport);

const LIMIT_BYTES: usize = 1_000;

#[async_trait]
impl TransportUnderTest for Memory {
    fn transport(&self) -> Box<dyn Transport> {
        Box::new(self.0.clone())
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        self.0.delivered_to(topic).iter().map(StoredMessage::of).collect()
    }

    async fn go_down(&self) -> bool {
        self.0.go_down();
        true
    }

    async fn go_up(&self) {
        self.0.go_up();
    }

    /// As a client reports it: what nobody answers fails when its time is over.
    async fn freeze(&self) -> bool {
        self.0.respond_when(ScriptedResponse::Fail(FailureClass::Temporary), |_| true);
        self.0.set_latency(self.0.delivery_timeout());
        true
    }

    async fn unfreeze(&self) {
        self.0.clear_responses();
        self.0.set_latency(Duration::ZERO);
    }

    fn oversized_payload_bytes(&self) -> Option<usize> {
        let refused = |envelope: &Envelope| envelope.size_bytes() > LIMIT_BYTES;
        self.0.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), refused);
        Some(LIMIT_BYTES + 1)
    }

    async fn unknown_topic(&self) -> Option<String> {
        let unknown = |envelope: &Envelope| &*envelope.topic == "unknown";
        self.0.respond_when(ScriptedResponse::Fail(FailureClass::Topic), unknown);
        Some("unknown".to_owned())
    }

    async fn create_topic(&self, _name: &str) -> bool {
        self.0.clear_responses();
        true
    }

    fn transport_with_queue_max(&self, messages: usize) -> Option<Box<dyn Transport>> {
        self.0.set_latency(Duration::from_millis(1));
        self.0.set_queue_max(messages);
        Some(self.transport())
    }

    fn unauthorized_transport(&self) -> Option<(Box<dyn Transport>, Vec<String>)> {
        self.0.go_down_as(FailureClass::Authentication);
        Some((self.transport(), Vec::new()))
    }
}

mod conformance {
    use super::{Duration, Memory, MemoryTransport};

    async fn open() -> Option<Memory> {
        let broker = MemoryTransport::new();
        broker.set_delivery_timeout(Duration::from_secs(1));
        Some(Memory(broker))
    }

    diesel_outbox::transport_conformance_tests!(open);
}
