//! What an answer does, and what none does.

use std::time::{Duration, Instant};

use diesel_outbox::testing::transport::{Outcomes, Seen};
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, Transport};

use super::{DEADLINE, Receiver, Reply, envelope, sent, to};

/// With as much time for an answer as a test has.
fn with_target(target: HttpTarget) -> HttpTransport {
    HttpTransport::builder().every_topic(target).timeout(DEADLINE).build().unwrap()
}

/// For answers that do not come.
fn impatient(target: HttpTarget) -> HttpTransport {
    HttpTransport::builder().every_topic(target).timeout(Duration::from_millis(500)).build().unwrap()
}

#[tokio::test]
async fn a_status_has_the_class_of_the_table_or_the_one_it_was_given() {
    let receiver = Receiver::start();
    let transport = with_target(
        HttpTarget::new(receiver.url("/"))
            .success([200, 202, 409])
            .treat(422, FailureClass::RecordRefused)
            .treat(500, FailureClass::Record)
            .treat(204, FailureClass::Topic),
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
async fn a_content_type_that_is_not_taken_is_the_messages_where_it_is_its_own() {
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
async fn a_rule_sees_as_much_of_the_body_as_it_asked_for() {
    let receiver = Receiver::start();
    let target = HttpTarget::new(receiver.url("/")).success_when(10, |answer| {
        assert!(answer.body.len() <= 10);
        answer.status == 200 && answer.is_whole && answer.body == b"\"accepted\""
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
async fn an_answer_without_end_delivers_and_holds_nothing_up() {
    let receiver = Receiver::start();
    let transport = HttpTransport::builder()
        .every_topic(HttpTarget::new(receiver.url("/")))
        .in_flight_per_host_max(2)
        .build()
        .unwrap();
    let outcomes = Outcomes::new();
    let replies =
        [Reply::Endless, Reply::Stalled, Reply::Body(200, vec![b'x'; 1 << 20]), Reply::Endless, Reply::Stalled];
    receiver.reply_next(replies);
    for id in 0..20 {
        let mut message = envelope("orders");
        message.key = Some("one".to_owned());
        outcomes.send(&transport, id, message);
    }
    let seen = outcomes.wait_for(20, DEADLINE).await;
    assert!(seen.iter().all(|(_, seen)| *seen == Seen::Delivered), "{seen:?}");
    assert_eq!(transport.flush(DEADLINE).await, 0);
}

#[tokio::test]
async fn a_receiver_that_says_nothing_is_a_time_out_and_many_are_an_outage() {
    let receiver = Receiver::start();
    receiver.reply_by(|received| (received.method == "POST").then_some(Reply::Held));
    let transport = impatient(HttpTarget::new(receiver.url("/")));
    let began = Instant::now();
    let seen = sent(&transport, envelope("orders")).await;
    assert_eq!(seen.class(), Some(FailureClass::Temporary), "{seen:?}");
    assert!(began.elapsed() >= Duration::from_millis(500));
    assert_eq!(transport.outage(), None, "one is none");
    let outcomes = Outcomes::new();
    (0..200).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(200, transport.delivery_timeout()).await;
    assert_eq!(transport.outage(), Some(FailureClass::Connection));
    let never_tried = seen.iter().filter(|(_, seen)| seen.class() == Some(FailureClass::Connection)).count();
    assert!(never_tried >= 100, "only {never_tried} of 200 were spared the wait");
    transport.probe().await.unwrap();
    assert_eq!(transport.outage(), None);
}

#[tokio::test]
async fn what_waited_too_long_goes_back_unsent() {
    let receiver = Receiver::start();
    receiver.reply_by(|_| Some(Reply::Held));
    let transport = HttpTransport::builder()
        .every_topic(HttpTarget::new(receiver.url("/")))
        .in_flight_per_host_max(1)
        .wait_max(Duration::from_millis(300))
        .build()
        .unwrap();
    let outcomes = Outcomes::new();
    (0..5).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(4, DEADLINE).await;
    assert!(seen.iter().all(|(id, seen)| *id > 0 && *seen == Seen::Busy), "{seen:?}");
    receiver.release();
    outcomes.wait_for(5, DEADLINE).await;
    assert_eq!(outcomes.of(0), Some(Seen::Delivered));
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn times_beyond_the_end_of_the_clock_are_without_end() {
    let receiver = Receiver::start();
    let builder = HttpTransport::builder().every_topic(HttpTarget::new(receiver.url("/"))).in_flight_per_host_max(1);
    let transport = builder.timeout(Duration::MAX).wait_max(Duration::MAX).build().unwrap();
    assert_eq!(transport.delivery_timeout(), Duration::MAX);
    receiver.reply_next([Reply::With(429, &[("retry-after", "1")])]);
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Temporary));
    let outcomes = Outcomes::new();
    (0..3).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(3, DEADLINE).await;
    assert!(seen.iter().all(|(_, seen)| *seen == Seen::Delivered), "they wait for the end of the pause: {seen:?}");
}

#[tokio::test]
async fn a_pause_that_can_be_waited_for_is_and_a_longer_one_is_the_topics() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    receiver.reply_next([Reply::With(429, &[("retry-after", "1")])]);
    let outcomes = Outcomes::new();
    outcomes.send(&transport, 0, envelope("orders"));
    outcomes.wait_for(1, DEADLINE).await;
    assert_eq!(outcomes.of(0).unwrap().class(), Some(FailureClass::Temporary));
    let began = Instant::now();
    (1..=100).for_each(|id| outcomes.send(&transport, id, envelope("orders")));
    let seen = outcomes.wait_for(101, DEADLINE).await;
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert!(seen[1..].iter().all(|(_, seen)| *seen == Seen::Delivered));

    // A date far away; nothing else is sent until then.
    receiver.reply_next([Reply::With(503, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")])]);
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Temporary));
    let seen = sent(&transport, envelope("orders")).await;
    assert_eq!(seen.class(), Some(FailureClass::Topic), "{seen:?}");
    assert_eq!(receiver.received().len(), 102);
    assert_eq!(transport.outage(), None, "it is there, and says when it takes more");
}

#[tokio::test]
async fn a_pause_that_a_probe_is_asked_for_is_kept_by_messages() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    receiver.kill();
    assert_eq!(sent(&transport, envelope("orders")).await.class(), Some(FailureClass::Connection));
    receiver.restart();
    receiver.reply_by(|received| (received.method == "HEAD").then_some(Reply::With(503, &[("retry-after", "1")])));
    let began = Instant::now();
    transport.probe().await.unwrap();
    assert_eq!(transport.outage(), None, "it is there, and says when it takes more");
    assert_eq!(sent(&transport, envelope("orders")).await, Seen::Delivered);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

/// Nothing was sent before, so that nobody looks after what waits yet.
#[tokio::test]
async fn the_first_message_of_all_may_wait_for_the_end_of_a_pause() {
    let receiver = Receiver::start();
    let transport = to(&receiver);
    receiver.reply_by(|received| (received.method == "HEAD").then_some(Reply::With(429, &[("retry-after", "1")])));
    let began = Instant::now();
    transport.probe().await.unwrap();
    assert_eq!(sent(&transport, envelope("orders")).await, Seen::Delivered);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}
