//! What a receiver gets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use diesel_outbox::testing::RecordedOutcome;
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, Transport as _};

use super::{Receiver, Reply, envelope, sent, to};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test]
async fn a_request_contains_the_row() {
    let receiver = Receiver::start();
    let target = HttpTarget::new(receiver.url("/hooks?shop=1"))
        .method("PUT")
        .created_at_header()
        .header("authorization", "Bearer swordfish")
        .header("x-tenant", "ours");
    let transport = HttpTransport::builder().topic("orders", target).user_agent("shop/1").build().unwrap();
    let mut message = envelope("orders");
    (message.key, message.kind, message.attempt) = (Some("42".to_owned()), "order.placed".to_owned(), 2);
    message.created_at += Duration::from_millis(1_234);
    message.deliver_at = Some(message.created_at + Duration::from_secs(1));
    for (name, value) in [("trace", "a"), ("trace", "b"), ("x-tenant", "theirs"), ("content-type", "text/plain")] {
        message.headers.push(name, value);
    }
    let id = message.message_id.to_string();
    assert_eq!(sent(&transport, message).await, RecordedOutcome::Delivered);
    let request = receiver.received().remove(0);
    assert_eq!((request.method.as_str(), request.uri.to_string().as_str()), ("PUT", "/hooks?shop=1"));
    assert_eq!(request.body, "{}");
    for (name, value) in [
        ("idempotency-key", id.as_str()),
        ("outbox-key", "42"),
        ("outbox-kind", "order.placed"),
        ("outbox-attempt", "2"),
        ("outbox-created-at", "1234"),
        ("outbox-deliver-at", "2234"),
        ("content-type", "text/plain"),
        ("authorization", "Bearer swordfish"),
        ("x-tenant", "ours"),
        ("user-agent", "shop/1"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
        assert_eq!(request.headers.get_all(name).iter().count(), 1, "{name}");
    }
    let traces: Vec<_> = request.headers.get_all("trace").iter().collect();
    assert_eq!(traces, ["a", "b"]);
    for absent in ["outbox-message-id", "outbox-topic", "outbox-tombstone", "webhook-id", "webhook-signature"] {
        assert_eq!(request.header(absent), None);
    }
}

/// What each request had under a name.
fn headers(receiver: &Receiver, name: &str) -> Vec<Option<String>> {
    receiver.received().iter().map(|request| request.header(name).map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_request_names_its_topic_if_the_url_does_not() {
    let receiver = Receiver::start();
    let target = |path: &str| HttpTarget::new(receiver.url(path));
    let transport = HttpTransport::builder()
        .topic("orders", target("/orders"))
        .topic("returns", target("/returns").topic_header())
        .topic("refunds", target("/money#refunds"))
        .topic("payments", target("/money"))
        .default_target(target("/all"))
        .build()
        .unwrap();
    for topic in ["orders", "returns", "refunds", "payments", "others"] {
        assert_eq!(sent(&transport, envelope(topic)).await, RecordedOutcome::Delivered);
    }
    let topics = [None, Some("returns"), Some("refunds"), Some("payments"), Some("others")];
    assert_eq!(topics.map(|topic| topic.map(str::to_owned)).to_vec(), headers(&receiver, "outbox-topic"));
}

#[tokio::test]
async fn only_later_attempts_have_the_attempt_header() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    for attempt in [1, 2] {
        let mut message = envelope("orders");
        message.attempt = attempt;
        assert_eq!(sent(&transport, message).await, RecordedOutcome::Delivered);
    }
    assert_eq!(headers(&receiver, "outbox-attempt"), [None, Some("2".to_owned())]);
    assert_eq!(headers(&receiver, "outbox-created-at"), [None, None], "it was not asked for");
    assert_eq!(headers(&receiver, "outbox-deliver-at"), [None, None], "it was not delayed");
}

#[tokio::test]
async fn a_signature_covers_the_bytes_that_are_sent() {
    let receiver = Receiver::start();
    let target = HttpTarget::new(receiver.url("/")).sign(SECRET).idempotency_header(None);
    let transport = HttpTransport::builder().default_target(target).build().unwrap();
    let message = envelope("orders");
    let id = message.message_id.to_string();
    assert_eq!(sent(&transport, message).await, RecordedOutcome::Delivered);
    let request = receiver.received().remove(0);
    assert_eq!(request.header("webhook-id"), Some(id.as_str()));
    assert_eq!(request.header("idempotency-key"), None);
    assert_eq!(request.header("outbox-message-id"), Some(id.as_str()));
    let timestamp = request.header("webhook-timestamp").unwrap();
    assert!(timestamp.parse::<u64>().unwrap() > 1_700_000_000, "seconds since 1970: {timestamp}");
    // The secret's bytes, written out.
    let secret = hex("31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0");
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".{}"].concat();
    let signature = request.header("webhook-signature").unwrap().strip_prefix("v1,").unwrap();
    let signature = super::BASE64.decode(signature).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
    ring::hmac::verify(&key, &signed, &signature).unwrap();
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[tokio::test]
async fn each_message_can_bring_its_url_which_the_receiver_does_not_see() {
    let receiver = Receiver::start();
    let transport = HttpTransport::builder()
        .topic("by-header", HttpTarget::from_header("webhook-url"))
        .default_target(HttpTarget::per_message({
            let base = receiver.url("");
            move |envelope| envelope.key.as_ref().map(|key| format!("{base}/customers/{key}"))
        }))
        .allow_private_addresses()
        .build()
        .unwrap();
    let mut by_header = envelope("by-header");
    by_header.headers.push("Webhook-Url", "http://nobody.invalid/");
    by_header.headers.push("webhook-url", receiver.url("/by-header?token=x"));
    let mut by_key = envelope("orders");
    by_key.key = Some("7".to_owned());
    assert_eq!(sent(&transport, by_header).await, RecordedOutcome::Delivered);
    assert_eq!(sent(&transport, by_key).await, RecordedOutcome::Delivered);
    let received = receiver.received();
    assert_eq!(received[0].uri.to_string(), "/by-header?token=x");
    assert_eq!(received[0].header("webhook-url"), None);
    assert_eq!(received[1].uri.to_string(), "/customers/7");

    let mut illegal = envelope("by-header");
    illegal.headers.push("webhook-url", "ftp://swordfish@shop.example/");
    for (message, says) in [(illegal, "neither http nor https"), (envelope("orders"), "no URL")] {
        let seen = sent(&transport, message).await;
        assert_eq!(seen.class(), Some(FailureClass::RecordRefused), "{seen:?}");
        let text = format!("{seen:?}");
        assert!(text.contains(says) && !text.contains("swordfish"), "{text}");
    }
    assert_eq!(receiver.received().len(), 2);
}

/// What would make another request of it, or is no header at all, is the message's fault and known before anything is sent.
#[tokio::test]
async fn a_header_that_http_cannot_have_is_refused_by_name() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    for name in ["transfer-encoding", "Content-Length", "host", "with space", "", "new\nline"] {
        let mut message = envelope("orders");
        message.headers.push(name, "1");
        let seen = sent(&transport, message).await;
        assert_eq!(seen.class(), Some(FailureClass::RecordRefused), "{name:?}: {seen:?}");
        assert!(format!("{seen:?}").contains("header"), "{seen:?}");
    }
    let mut split = envelope("orders");
    split.headers.push("note", "a\r\nx-admin: 1");
    assert_eq!(sent(&transport, split).await, RecordedOutcome::Delivered);
    let received = receiver.received();
    assert_eq!((received.len(), received[0].header("x-admin")), (1, None));
    assert_eq!(received[0].header("note-b64"), Some("YQ0KeC1hZG1pbjogMQ=="));
}

#[tokio::test]
async fn a_probe_uses_the_health_url() {
    let (receiver, probes) = (Receiver::start(), Arc::new(Mutex::new(Vec::new())));
    let notes = Arc::clone(&probes);
    receiver.reply_by(move |received| {
        let login = received.header("authorization").unwrap_or("nobody").to_owned();
        notes.lock().unwrap().push(format!("{} {} {login}", received.method, received.uri));
        (received.uri.path() == "/hooks").then_some(Reply::Status(503))
    });
    let target = || HttpTarget::new(receiver.url("/hooks")).header("authorization", "Bearer swordfish");
    let to = |target| HttpTransport::builder().default_target(target).build().unwrap();
    to(target().health_url(receiver.url("/health?deep=1"))).probe().await.unwrap();
    assert_eq!(*probes.lock().unwrap(), ["HEAD /health?deep=1 Bearer swordfish"]);
    let refused = to(target()).probe().await.unwrap_err();
    assert_eq!(refused.class(), FailureClass::Connection, "{refused}");
    assert_eq!(probes.lock().unwrap()[1..], ["HEAD /hooks Bearer swordfish"]);
}
