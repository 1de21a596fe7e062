use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, RetryOutcome, SendNowOutcome};

use super::fixture::{ACCOUNTS, BAD, Fixture, Handle, ORDERS, PAYMENTS, message, until};
use super::{admin_tests, call};

const HOUR: Duration = Duration::from_secs(3_600);

admin_tests!(
    waiting_messages_are_sent_now,
    a_message_is_retried_wherever_it_is,
    a_paused_topic_waits_until_it_is_resumed
);

async fn waiting_messages_are_sent_now(fixture: &mut Fixture) {
    let delayed = fixture.enqueue(&message(ORDERS, "1").delay(HOUR));
    assert_eq!(call!(fixture, send_now(delayed)).expect("send now"), SendNowOutcome::Due);
    fixture.delivered(&[delayed]).await;
    let delayed = fixture.enqueue(&message(PAYMENTS, "1").delay(HOUR));
    call!(fixture, cancel(delayed)).expect("cancel");
    for gone in [delayed, MessageId::new()] {
        let error = call!(fixture, send_now(gone)).expect_err("it is not there");
        assert!(matches!(error, AdminError::NotWaiting { .. }), "{error}");
    }
    assert!(!fixture.is_delivered(delayed));
}

async fn a_message_is_retried_wherever_it_is(fixture: &mut Fixture) {
    let dead = fixture.dead_letter_all(&[message(PAYMENTS, BAD), message(ACCOUNTS, BAD)]).await;
    for id in &dead {
        assert_eq!(call!(fixture, retry_send(*id)).expect("retry"), RetryOutcome::Redriven);
    }
    let waits = fixture.enqueue(&message(PAYMENTS, "1").delay(HOUR));
    assert_eq!(call!(fixture, retry_send(waits)).expect("retry"), RetryOutcome::Due);
    fixture.delivered(&[dead[0], dead[1], waits]).await;
    let error = call!(fixture, retry_send(MessageId::new())).expect_err("nobody knows it");
    assert!(matches!(error, AdminError::NotFound { .. }), "{error}");
}

async fn a_paused_topic_waits_until_it_is_resumed(fixture: &mut Fixture) {
    for topic in [PAYMENTS, ACCOUNTS] {
        call!(fixture, pause(topic)).expect("pause");
    }
    until("the relay has seen it", || fixture.relay.status().paused_topics.len() == 2).await;
    let paused = call!(fixture, paused()).expect("paused");
    assert_eq!(paused.iter().map(|of| &*of.topic).collect::<Vec<_>>(), [ACCOUNTS, PAYMENTS]);
    let held = [fixture.enqueue(&message(PAYMENTS, "1")), fixture.enqueue(&message(ACCOUNTS, "1"))];
    let other = fixture.enqueue(&message(ORDERS, "1"));
    fixture.delivered(&[other]).await;
    assert!(!held.iter().any(|id| fixture.is_delivered(*id)), "they were enqueued before");
    for topic in [PAYMENTS, ACCOUNTS] {
        call!(fixture, resume(topic)).expect("resume");
        let error = call!(fixture, resume(topic)).expect_err("it is not paused");
        assert!(matches!(error, AdminError::NotPaused { .. }), "{error}");
    }
    fixture.delivered(&held).await;
    let error = call!(fixture, pause("paymnets")).expect_err("there is no such topic");
    assert!(matches!(error, AdminError::UnknownTopic { .. }), "{error}");
}
