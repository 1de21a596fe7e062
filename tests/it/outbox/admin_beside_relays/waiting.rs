use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, LiveFilter, LiveState, RetryOutcome, SendNowOutcome};

use super::fixture::{ACCOUNTS, BAD, Fixture, Handle, ORDERS, PAYMENTS, message, until, until_async};
use super::{admin_tests, call};

const HOUR: Duration = Duration::from_secs(3_600);

admin_tests!(
    waiting_messages_are_sent_now,
    a_message_is_retried_wherever_it_is,
    live_messages_are_listed_and_cancelled,
    of_a_cancel_and_a_relay_one_wins,
    a_paused_topic_waits_until_it_is_resumed
);

async fn waiting_messages_are_sent_now(fixture: &mut Fixture) {
    let delayed = fixture.enqueue(&message(ORDERS, "1").delay(HOUR));
    assert_eq!(call!(fixture, send_now(delayed)).expect("send now"), SendNowOutcome::Due);
    fixture.delivered(&[delayed]).await;
    let delayed = fixture.enqueue(&message(PAYMENTS, "1").delay(HOUR));
    call!(fixture, cancel_delayed(delayed)).expect("cancel");
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

async fn live_messages_are_listed_and_cancelled(fixture: &mut Fixture) {
    for topic in [PAYMENTS, ACCOUNTS] {
        call!(fixture, pause(topic)).expect("pause");
    }
    until("the relay has seen it", || fixture.relay.status().paused_topics.len() == 2).await;
    let [gone, stays] = ["1", "2"].map(|key| fixture.enqueue(&message(PAYMENTS, key)));
    let in_lane = fixture.enqueue(&message(ACCOUNTS, "1"));
    let due = LiveFilter::of(PAYMENTS).state(LiveState::Due);
    until_async("both are due", async || {
        call!(fixture, live_messages(&due, None, 10)).expect("live messages").items.len() == 2
    })
    .await;
    let of_key = call!(fixture, live_messages(&due.clone().key("1"), None, 10)).expect("live messages");
    assert_eq!(of_key.items.iter().map(|message| message.message_id).collect::<Vec<_>>(), [gone]);
    assert_eq!(call!(fixture, count_live(PAYMENTS)).expect("count").due.to_string(), "2");
    let ordered = call!(fixture, live_message(in_lane)).expect("it is live");
    assert_eq!(ordered.state, LiveState::InLane);
    assert!(ordered.owner.is_some() && ordered.leased_until.is_some(), "the relay owns the lanes: {ordered:?}");
    assert_eq!(call!(fixture, blocked_keys(ACCOUNTS, None, 10)).expect("keys").items, []);

    call!(fixture, cancel_waiting(gone)).expect("cancel");
    for not_waiting in [gone, in_lane] {
        let error = call!(fixture, cancel_waiting(not_waiting)).expect_err("nobody may take it");
        assert!(matches!(error, AdminError::NotWaiting { .. }), "{error}");
    }
    let error = call!(fixture, live_message(gone)).expect_err("it is gone");
    assert!(matches!(error, AdminError::NotLive { .. }), "{error}");
    for topic in [PAYMENTS, ACCOUNTS] {
        call!(fixture, resume(topic)).expect("resume");
    }
    fixture.delivered(&[stays, in_lane]).await;
    assert!(!fixture.is_delivered(gone));
}

async fn of_a_cancel_and_a_relay_one_wins(fixture: &mut Fixture) {
    let delay = |n: u64| Duration::from_millis(5 * n);
    let ids: Vec<MessageId> =
        (0..100).map(|n| fixture.enqueue(&message(PAYMENTS, &n.to_string()).delay(delay(n)))).collect();
    let (mut cancelled, mut sent) = (Vec::new(), Vec::new());
    for id in ids {
        match call!(fixture, cancel_waiting(id)) {
            Ok(()) => cancelled.push(id),
            Err(AdminError::AlreadyClaimed { .. } | AdminError::NotWaiting { .. }) => sent.push(id),
            Err(error) => panic!("{error}"),
        }
    }
    fixture.delivered(&sent).await;
    let is_delivered: Vec<&MessageId> = cancelled.iter().filter(|id| fixture.is_delivered(**id)).collect();
    assert_eq!(is_delivered, Vec::<&MessageId>::new(), "of {} that were cancelled", cancelled.len());
}

async fn a_paused_topic_waits_until_it_is_resumed(fixture: &mut Fixture) {
    for topic in [PAYMENTS, ACCOUNTS] {
        call!(fixture, pause(topic)).expect("pause");
    }
    until("the relay has seen it", || fixture.relay.status().paused_topics.len() == 2).await;
    let paused = call!(fixture, paused()).expect("paused");
    assert_eq!(paused.iter().map(|(topic, _)| &**topic).collect::<Vec<_>>(), [ACCOUNTS, PAYMENTS]);
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
