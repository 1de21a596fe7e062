//! What an answer does, and what none does.

use std::time::{Duration, Instant};

use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome};
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, Transport};

use super::{DEADLINE, Receiver, Reply, envelope, sent, to};

/// With as much time for an answer as a test has.
fn with_target(target: HttpTarget) -> HttpTransport {
    HttpTransport::builder().default_target(target).timeout(DEADLINE).build().unwrap()
}

/// For answers that do not come.
fn impatient(target: HttpTarget) -> HttpTransport {
    HttpTransport::builder().default_target(target).timeout(Duration::from_millis(500)).build().unwrap()
}

#[tokio::test]
async fn a_status_has_its_default_or_configured_class() {
    let receiver = Receiver::start();
    let transport = with_target(
        HttpTarget::new(receiver.url("/"))
            .success([200, 202, 409])
            .classify_status(422, FailureClass::RecordRefused)
            .classify_status(500, FailureClass::Record)
            .classify_status(204, FailureClass::Topic),
    );
    for (status, class) in [
        (202, None),
        (409, None),
        (201, Some(FailureClass::Record)),
        (204, Some(FailureClass::Topic)),
        (302, Some(FailureClass::Topic)),
        (400, Some(FailureClass::Record)),
        (404, Some(FailureClass::Topic)),
        (415, Some(FailureClass::Topic)),
        (418, Some(FailureClass::Record)),
        (422, Some(FailureClass::RecordRefused)),
        (429, Some(FailureClass::Temporary)),
        (500, Some(FailureClass::Record)),
        (503, Some(FailureClass::Temporary)),
    ] {
        receiver.reply_next([Reply::With(status, &[("location", "/elsewhere")])]);
        let seen = sent(&transport, envelope("orders")).await;
        assert_eq!(seen.class(), class, "{status}: {seen:?}");
    }
    assert_eq!(receiver.received().len(), 13, "no redirect is followed");
    receiver.reply_next([Reply::Status(401)]);
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Authentication));
    assert_eq!(transport.outage(), Some(FailureClass::Authentication));
    transport.probe().await.unwrap();
    assert_eq!(transport.outage(), None);
}

/// Where the content type is the target's, nothing that is sent there is taken; where it is the message's own, another is.
#[tokio::test]
async fn an_unsupported_content_type_is_a_record_failure_if_the_message_set_it() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    let mut with_its_own = envelope("orders");
    with_its_own.headers.push("Content-Type", "text/csv");
    for (message, class) in [(envelope("orders"), FailureClass::Topic), (with_its_own, FailureClass::Record)] {
        receiver.reply_next([Reply::Status(415)]);
        assert_eq!(sent(&transport, message).await.class(), Some(class));
    }
}

#[tokio::test]
async fn a_success_predicate_sees_the_requested_part_of_the_body() {
    let receiver = Receiver::start();
    let target = HttpTarget::new(receiver.url("/")).success_when(10, |answer| {
        assert!(answer.body.len() <= 10);
        answer.status == 200 && answer.is_complete && answer.body == b"\"accepted\""
    });
    let transport = with_target(target);
    for (reply, class) in [
        (Reply::Body(200, b"\"accepted\"".to_vec()), None),
        (Reply::Body(200, b"\"rejected\"".to_vec()), Some(FailureClass::Record)),
        (Reply::Body(200, b"\"accepted\" and more".to_vec()), Some(FailureClass::Record)),
        (Reply::Body(422, b"\"accepted\"".to_vec()), Some(FailureClass::Record)),
        (Reply::Endless, Some(FailureClass::Record)),
        // It began with less than the rule asked for.
        (Reply::Body(200, Vec::new()), Some(FailureClass::Record)),
    ] {
        receiver.reply_next([reply.clone()]);
        let seen = sent(&transport, envelope("orders")).await;
        assert_eq!(seen.class(), class, "{reply:?}: {seen:?}");
        assert!(!format!("{seen:?}").contains("rejected"), "answers are repeated nowhere: {seen:?}");
    }
    let wants_more = impatient(HttpTarget::new(receiver.url("/")).success_when(10_000, |_| true));
    receiver.reply_next([Reply::Stalled]);
    let seen = sent(&wants_more, envelope("orders")).await;
    assert_eq!(seen.class(), Some(FailureClass::Temporary), "a time-out: {seen:?}");
}

/// The status is what counts: a body that is too long, or never ends, is nobody's reason to wait.
#[tokio::test]
async fn an_endless_response_delivers_and_blocks_nothing() {
    let receiver = Receiver::start();
    let transport = HttpTransport::builder()
        .default_target(HttpTarget::new(receiver.url("/")))
        .in_flight_per_host_max(2)
        .build()
        .unwrap();
    let outcomes = OutcomeRecorder::new();
    let replies =
        [Reply::Endless, Reply::Stalled, Reply::Body(200, vec![b'x'; 1 << 20]), Reply::Endless, Reply::Stalled];
    receiver.reply_next(replies);
    for id in 0..20 {
        let mut message = envelope("orders");
        message.key = Some("one".to_owned());
        outcomes.send(&transport, id, message);
    }
    let seen = outcomes.wait_for(20, DEADLINE).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{seen:?}");
    assert_eq!(transport.flush(DEADLINE).await, 0);
}

#[tokio::test]
async fn a_silent_receiver_times_out_and_many_timeouts_are_an_outage() {
    let receiver = Receiver::start();
    receiver.reply_by(|received| (received.method == "POST").then_some(Reply::Hang));
    let transport = impatient(HttpTarget::new(receiver.url("/")));
    let began = Instant::now();
    let seen = sent(&transport, envelope("orders")).await;
    assert_eq!(seen.class(), Some(FailureClass::Temporary), "{seen:?}");
    assert!(began.elapsed() >= Duration::from_millis(500));
    assert_eq!(transport.outage(), None, "one is none");
    let outcomes = OutcomeRecorder::new();
    (0..200).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(200, transport.delivery_timeout()).await;
    assert_eq!(transport.outage(), Some(FailureClass::Connection));
    let never_tried = seen.iter().filter(|(_, seen)| seen.class() == Some(FailureClass::Connection)).count();
    assert!(never_tried >= 100, "only {never_tried} of 200 were spared the wait");
    transport.probe().await.unwrap();
    assert_eq!(transport.outage(), None);
}

#[tokio::test]
async fn messages_that_waited_too_long_return_unsent() {
    let receiver = Receiver::start();
    receiver.reply_by(|_| Some(Reply::Hang));
    let transport = HttpTransport::builder()
        .default_target(HttpTarget::new(receiver.url("/")))
        .in_flight_per_host_max(1)
        .queue_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    let outcomes = OutcomeRecorder::new();
    (0..5).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(4, DEADLINE).await;
    assert!(seen.iter().all(|(id, seen)| *id > 0 && *seen == RecordedOutcome::Busy), "{seen:?}");
    receiver.release();
    outcomes.wait_for(5, DEADLINE).await;
    assert_eq!(outcomes.of(0), Some(RecordedOutcome::Delivered));
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn times_beyond_the_clock_range_never_expire() {
    let receiver = Receiver::start();
    let builder = HttpTransport::builder().default_target(HttpTarget::new(receiver.url("/"))).in_flight_per_host_max(1);
    let transport = builder.timeout(Duration::MAX).queue_timeout(Duration::MAX).build().unwrap();
    assert_eq!(transport.delivery_timeout(), Duration::MAX);
    receiver.reply_next([Reply::With(429, &[("retry-after", "1")])]);
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Temporary));
    let outcomes = OutcomeRecorder::new();
    (0..3).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(3, DEADLINE).await;
    assert!(
        seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered),
        "they wait for the end of the pause: {seen:?}"
    );
}

#[tokio::test]
async fn a_short_pause_is_waited_for_and_a_long_one_backs_off_the_topic() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    receiver.reply_next([Reply::With(429, &[("retry-after", "1")])]);
    let outcomes = OutcomeRecorder::new();
    outcomes.send(&transport, 0, envelope("orders"));
    outcomes.wait_for(1, DEADLINE).await;
    assert_eq!(outcomes.of(0).unwrap().class(), Some(FailureClass::Temporary));
    let began = Instant::now();
    (1..=100).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(101, DEADLINE).await;
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert!(seen[1..].iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered));

    // A date far away; nothing else is sent until then.
    receiver.reply_next([Reply::With(503, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")])]);
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Temporary));
    let seen = sent(&transport, envelope("orders")).await;
    assert_eq!(seen.class(), Some(FailureClass::Topic), "{seen:?}");
    assert_eq!(receiver.received().len(), 102);
    assert_eq!(transport.outage(), None, "it is there, and says when it takes more");
}

#[tokio::test]
async fn messages_respect_a_pause_requested_of_a_probe() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    receiver.kill();
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Connection));
    receiver.restart();
    receiver.reply_by(|received| (received.method == "HEAD").then_some(Reply::With(503, &[("retry-after", "1")])));
    let began = Instant::now();
    transport.probe().await.unwrap();
    assert_eq!(transport.outage(), None, "it is there, and says when it takes more");
    assert_eq!(sent(&transport, envelope("orders")).await, RecordedOutcome::Delivered);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

/// Nothing was sent before, so that nobody looks after what waits yet.
#[tokio::test]
async fn the_first_message_may_wait_for_the_end_of_a_pause() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    receiver.reply_by(|received| (received.method == "HEAD").then_some(Reply::With(429, &[("retry-after", "1")])));
    let began = Instant::now();
    transport.probe().await.unwrap();
    assert_eq!(sent(&transport, envelope("orders")).await, RecordedOutcome::Delivered);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}
