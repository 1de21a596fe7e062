use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, Hastening, Retried};

use super::yard::{ACCOUNTS, BAD, Handle, ORDERS, PAYMENTS, Yard, message, until};
use super::{ask, beside_relays};

const HOUR: Duration = Duration::from_secs(3_600);

beside_relays!(
    what_waits_is_sent_now,
    a_message_is_tried_again_wherever_it_is,
    a_paused_topic_waits_until_it_is_resumed
);

async fn what_waits_is_sent_now(yard: &mut Yard) {
    let delayed = yard.enqueue(&message(ORDERS, "1").delay(HOUR));
    assert_eq!(ask!(yard, send_now(delayed)).expect("send now"), Hastening::Due);
    yard.delivered(&[delayed]).await;
    let delayed = yard.enqueue(&message(PAYMENTS, "1").delay(HOUR));
    ask!(yard, cancel(delayed)).expect("cancel");
    for gone in [delayed, MessageId::new()] {
        let error = ask!(yard, send_now(gone)).expect_err("it is not there");
        assert!(matches!(error, AdminError::NotWaiting { .. }), "{error}");
    }
    assert!(!yard.is_delivered(delayed));
}

async fn a_message_is_tried_again_wherever_it_is(yard: &mut Yard) {
    let dead = yard.bury(&[message(PAYMENTS, BAD), message(ACCOUNTS, BAD)]).await;
    for id in &dead {
        assert_eq!(ask!(yard, retry_send(*id)).expect("retry"), Retried::Redriven);
    }
    let waits = yard.enqueue(&message(PAYMENTS, "1").delay(HOUR));
    assert_eq!(ask!(yard, retry_send(waits)).expect("retry"), Retried::Due);
    yard.delivered(&[dead[0], dead[1], waits]).await;
    let error = ask!(yard, retry_send(MessageId::new())).expect_err("nobody knows it");
    assert!(matches!(error, AdminError::NotThere { .. }), "{error}");
}

async fn a_paused_topic_waits_until_it_is_resumed(yard: &mut Yard) {
    for topic in [PAYMENTS, ACCOUNTS] {
        ask!(yard, pause(topic)).expect("pause");
    }
    until("the relay has seen it", || yard.relay.status().paused_topics.len() == 2).await;
    let paused = ask!(yard, paused()).expect("paused");
    assert_eq!(paused.iter().map(|of| &*of.topic).collect::<Vec<_>>(), [ACCOUNTS, PAYMENTS]);
    let held = [yard.enqueue(&message(PAYMENTS, "1")), yard.enqueue(&message(ACCOUNTS, "1"))];
    let other = yard.enqueue(&message(ORDERS, "1"));
    yard.delivered(&[other]).await;
    assert!(!held.iter().any(|id| yard.is_delivered(*id)), "they were enqueued before");
    for topic in [PAYMENTS, ACCOUNTS] {
        ask!(yard, resume(topic)).expect("resume");
        let error = ask!(yard, resume(topic)).expect_err("it is not paused");
        assert!(matches!(error, AdminError::NotPaused { .. }), "{error}");
    }
    yard.delivered(&held).await;
    let error = ask!(yard, pause("paymnets")).expect_err("there is no such topic");
    assert!(matches!(error, AdminError::UnknownTopic { .. }), "{error}");
}
