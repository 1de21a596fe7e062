//! Several hosts in one transport, and hosts that nothing may be sent to.

use std::net::TcpListener;
use std::time::Duration;

use diesel_outbox::internals::limits::{HTTP_CONNECT_TIMEOUT, HTTP_PROBE_TIMEOUT};
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome};
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, Transport};

use super::{DEADLINE, Receiver, Reply, envelope, sent};

fn to_both(up: &Receiver, down: &Receiver) -> HttpTransport {
    HttpTransport::builder()
        .topic("up", HttpTarget::new(up.url("/")))
        .topic("down", HttpTarget::new(down.url("/")))
        .timeout(Duration::from_secs(3))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_down_host_backs_off_its_topic_and_recovers() {
    let (up, down) = (Receiver::start(), Receiver::start());
    let transport = to_both(&up, &down);
    down.kill();
    for _ in 0..3 {
        let seen = sent(&transport, envelope("down")).await;
        assert_eq!(seen.class(), Some(FailureClass::Topic), "{seen:?}");
        assert_eq!(sent(&transport, envelope("up")).await, RecordedOutcome::Delivered);
    }
    assert_eq!(transport.outage(), None, "the transport is not down");
    transport.probe().await.unwrap();
    down.restart();
    let back = async { while sent(&transport, envelope("down")).await != RecordedOutcome::Delivered {} };
    tokio::time::timeout(DEADLINE, back).await.unwrap();
}

#[tokio::test]
async fn a_down_host_affects_only_the_messages_that_name_it() {
    let (up, down) = (Receiver::start(), Receiver::start());
    let transport = HttpTransport::builder()
        .default_target(HttpTarget::from_header("to"))
        .allow_private_addresses()
        .build()
        .unwrap();
    let to = |receiver: &Receiver| {
        let mut message = envelope("webhooks");
        message.headers.push("to", receiver.url("/"));
        message
    };
    down.kill();
    for _ in 0..2 {
        let seen = sent(&transport, to(&down)).await;
        assert_eq!(seen.class(), Some(FailureClass::Temporary), "{seen:?}");
        assert_eq!(sent(&transport, to(&up)).await, RecordedOutcome::Delivered);
    }
    for (status, class) in
        [(401, FailureClass::Record), (404, FailureClass::Record), (410, FailureClass::RecordRefused)]
    {
        up.reply_next([Reply::Status(status)]);
        assert_eq!(sent(&transport, to(&up)).await.class(), Some(class), "{status}");
        assert_eq!(sent(&transport, to(&up)).await, RecordedOutcome::Delivered, "the outage is of one host only");
    }
}

#[tokio::test]
async fn each_host_has_its_own_in_flight_limit() {
    let (up, slow) = (Receiver::start(), Receiver::start());
    slow.reply_by(|_| Some(Reply::Hang));
    let transport = HttpTransport::builder()
        .topic("up", HttpTarget::new(up.url("/")))
        .topic("slow", HttpTarget::new(slow.url("/")))
        .in_flight_per_host_max(5)
        .build()
        .unwrap();
    assert_eq!(transport.in_flight_max(), 80, "for each request eight, for each host");
    let outcomes = OutcomeRecorder::new();
    (0..100).for_each(|id| outcomes.send(&transport, id, envelope("slow")));
    slow.until_received(5).await;
    let seen = outcomes.wait_for(60, DEADLINE).await;
    let refused = seen.iter().filter(|(_, seen)| seen.class() == Some(FailureClass::Temporary)).count();
    assert_eq!((refused, seen.len()), (60, 60), "beyond its share of 40: {seen:?}");
    let others = OutcomeRecorder::new();
    (0..200).for_each(|id| others.send(&transport, id, envelope("up")));
    let delivered =
        |seen: &[(i64, RecordedOutcome)]| seen.iter().filter(|(_, seen)| *seen == RecordedOutcome::Delivered).count();
    assert!(delivered(&others.wait_for(200, DEADLINE).await) >= 40);
    slow.release();
    outcomes.wait_for(100, DEADLINE).await;
    assert_eq!((slow.peak(), delivered(&outcomes.seen())), (5, 40));
    assert!(up.peak() <= 5);
}

/// Somebody who takes connections and never says anything, and a transport to it.
fn silent(scheme: &str) -> (TcpListener, HttpTransport) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{scheme}://{}/", silent.local_addr().unwrap());
    (silent, HttpTransport::builder().default_target(HttpTarget::new(url)).build().unwrap())
}

/// On virtual time, because nothing else is to be waited for.
#[tokio::test(start_paused = true)]
async fn a_probe_of_a_silent_host_respects_its_timeout() {
    let (_silent, transport) = silent("http");
    let began = tokio::time::Instant::now();
    let probed = tokio::time::timeout(HTTP_PROBE_TIMEOUT * 10, transport.probe()).await.expect("it ends");
    assert_eq!(probed.unwrap_err().class(), FailureClass::Connection);
    assert!(began.elapsed() <= HTTP_PROBE_TIMEOUT + Duration::from_millis(10), "{:?}", began.elapsed());
}

/// It never does its part in setting up TLS.
#[tokio::test(start_paused = true)]
async fn connecting_respects_its_timeout() {
    let (_silent, transport) = silent("https");
    let began = tokio::time::Instant::now();
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Connection));
    assert!(began.elapsed() <= HTTP_CONNECT_TIMEOUT + Duration::from_millis(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn denied_private_addresses_are_unreachable_by_name_and_number() {
    let receiver = Receiver::start();
    let builder = || HttpTransport::builder().deny_private_addresses();
    let by_header = builder().default_target(HttpTarget::from_header("to")).build().unwrap();
    for host in ["127.0.0.1", "localhost", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let mut message = envelope("webhooks");
        message.headers.push("to", format!("http://{host}:{}/token", receiver.port()));
        let seen = sent(&by_header, message).await;
        // A name may lead elsewhere when it is looked up again.
        let class = if host == "localhost" { FailureClass::Record } else { FailureClass::RecordRefused };
        assert_eq!(seen.class(), Some(class), "{host}: {seen:?}");
        let text = format!("{seen:?}");
        assert!(text.contains("no public address") && !text.contains("token"), "{text}");
    }
    let by_topic =
        builder().default_target(HttpTarget::new(format!("http://localhost:{}/", receiver.port()))).build().unwrap();
    assert_eq!(sent(&by_topic, envelope("orders")).await.class(), Some(FailureClass::Topic));
    assert!(receiver.received().is_empty());
}

/// A panic of the application's own function is that message's failure, and nobody else's.
#[tokio::test]
async fn a_panicking_success_predicate_stops_nothing() {
    let receiver = Receiver::start();
    let target = HttpTarget::new(receiver.url("/")).success_when(100, |answer| {
        assert!(answer.status != 418, "a bug in third-party code");
        true
    });
    let transport = HttpTransport::builder().default_target(target).in_flight_per_host_max(1).build().unwrap();
    receiver.reply_next([Reply::Status(418), Reply::Status(418)]);
    let outcomes = OutcomeRecorder::new();
    for id in 0..5 {
        let mut message = envelope("orders");
        message.key = Some("one".to_owned());
        outcomes.send(&transport, id, message);
    }
    let seen = outcomes.wait_for(5, DEADLINE).await;
    let failed = seen.iter().filter(|(_, seen)| seen.class() == Some(FailureClass::Temporary)).count();
    assert_eq!(failed, 2, "{seen:?}");
}
