use std::time::{Duration, Instant};

use diesel_outbox::admin::{AdminError, DeadLetterFilter, RedriveRate};
use diesel_outbox::{Message, MessageId};

use super::fixture::{ACCOUNTS, BAD, DEAD_LETTERS_MAX, Fixture, Handle, ORDERS, PAYMENTS, message, until};
use super::{admin_tests, call};

admin_tests!(
    one_dead_letter_is_read_and_retried,
    dead_letters_are_retried_by_filter_and_rate,
    an_edited_dead_letter_replaces_the_old_one,
    purged_dead_letters_are_gone,
    dead_letter_callbacks_are_called,
);

async fn one_dead_letter_is_read_and_retried(fixture: &mut Fixture) {
    for topic in [ORDERS, ACCOUNTS, PAYMENTS] {
        let id = fixture.dead_letter_all(&[message(topic, BAD)]).await[0];
        let letter = call!(fixture, dead_letter(id)).expect("it is dead");
        // Its one failure was the last, and is the reason.
        assert_eq!((&*letter.topic, letter.attempts, letter.errors.len()), (topic, 0, 0), "{letter:?}");
        assert!(letter.reason.starts_with("attempts: record: "), "{}", letter.reason);
        let text = match &fixture.handle {
            Handle::Async(admin) => admin.payload_text(&letter).to_string(),
            Handle::Blocking(admin) => {
                tokio::task::block_in_place(|| admin.run(async |admin| admin.payload_text(&letter).to_string()))
            }
        };
        let is_registered = topic == ORDERS;
        assert_eq!(text == r#"placed: {"order_id":42}"#, is_registered, "{text}");
        assert_eq!(text.contains("not registered"), !is_registered, "{text}");

        assert!(!fixture.is_delivered(id));
        call!(fixture, redrive(id)).expect("redrive");
        fixture.delivered(&[id]).await;
        let error = call!(fixture, redrive(id)).expect_err("it is dead no more");
        assert!(matches!(error, AdminError::NotDeadLetter { message_id } if message_id == id), "{error}");
    }
}

async fn dead_letters_are_retried_by_filter_and_rate(fixture: &mut Fixture) {
    let returned = message(PAYMENTS, BAD).kind("payment.returned");
    let messages: Vec<Message> =
        (0..5).map(|_| message(PAYMENTS, BAD)).chain((0..3).map(|_| returned.clone())).collect();
    let ids = fixture.dead_letter_all(&messages).await;
    let (placed, returned): (&[MessageId], &[MessageId]) = ids.split_at(5);
    let (began, mut called_back) = (Instant::now(), Vec::new());
    let (filter, rate) =
        (DeadLetterFilter::new().kind("order.placed"), RedriveRate::default().rows_max(2).per_second(2));
    let went = call!(fixture, redrive_all(&filter, rate, |so_far| called_back.push(so_far))).expect("redrive");
    assert_eq!((went, called_back), (5, vec![2, 4, 5]));
    assert!(began.elapsed() > Duration::from_millis(1_500), "two a second: {:?}", began.elapsed());
    fixture.delivered(placed).await;
    assert!(!returned.iter().any(|id| fixture.is_delivered(*id)), "the filter does not match them");
    let counts = call!(fixture, count_dead_letters()).expect("count");
    assert_eq!(
        counts.iter().map(|of| (&*of.topic, of.reason.as_str(), of.count)).collect::<Vec<_>>(),
        [(PAYMENTS, "attempts", 3)]
    );

    let went = call!(fixture, redrive_all(&DeadLetterFilter::new(), RedriveRate::default(), |_| {})).expect("redrive");
    assert_eq!(went, 3);
    fixture.delivered(returned).await;
    assert_eq!(call!(fixture, count_dead_letters()).expect("count"), []);
}

async fn an_edited_dead_letter_replaces_the_old_one(fixture: &mut Fixture) {
    for topic in [ACCOUNTS, PAYMENTS] {
        let id = fixture.dead_letter_all(&[message(topic, BAD)]).await[0];
        let letter = call!(fixture, dead_letter(id)).expect("it is dead");
        let edited = letter.to_message().expect("it is whole").payload_bytes("mended");
        let new_id = call!(fixture, redrive_edited(id, &edited)).expect("redrive");
        fixture.delivered(&[new_id]).await;
        let sent = fixture.broker.delivered().into_iter().find(|sent| sent.message_id == new_id).expect("delivered");
        assert_eq!((&*sent.topic, sent.payload.as_deref()), (topic, Some(&b"mended"[..])));
        assert!(!fixture.is_delivered(id), "the old one is gone");
        let error = call!(fixture, redrive_edited(id, &edited)).expect_err("it is replaced");
        assert!(matches!(error, AdminError::NotDeadLetter { .. }), "{error}");
    }
}

async fn purged_dead_letters_are_gone(fixture: &mut Fixture) {
    let ids = fixture.dead_letter_all(&[message(ORDERS, BAD), message(ORDERS, BAD), message(ACCOUNTS, BAD)]).await;
    call!(fixture, purge(ids[0])).expect("purge");
    let error = call!(fixture, purge(ids[0])).expect_err("it is gone");
    assert!(matches!(error, AdminError::NotDeadLetter { .. }), "{error}");
    let error = call!(fixture, purge_all(&DeadLetterFilter::new(), |_| {})).expect_err("no condition");
    assert!(matches!(error, AdminError::NoFilter), "{error}");
    assert_eq!(call!(fixture, purge_all(&DeadLetterFilter::new().topic(ORDERS), |_| {})).expect("purge"), 1);
    let page = call!(fixture, dead_letters(&DeadLetterFilter::new(), None, 10)).expect("letters");
    assert_eq!(page.items.iter().map(|letter| letter.message_id).collect::<Vec<_>>(), [ids[2]]);
    assert_eq!(call!(fixture, purge_all(&DeadLetterFilter::everything(), |_| {})).expect("purge"), 1);
    // Behind them on the same way, so that they would have come before it.
    let last = [fixture.enqueue(&message(ORDERS, "good")), fixture.enqueue(&message(ACCOUNTS, BAD))];
    fixture.delivered(&last).await;
    assert!(!ids.iter().any(|id| fixture.is_delivered(*id)));
}

async fn dead_letter_callbacks_are_called(fixture: &mut Fixture) {
    let within: Vec<Message> = (0..DEAD_LETTERS_MAX).map(|_| message(ORDERS, BAD)).collect();
    fixture.dead_letter_all(&within).await;
    assert_eq!(fixture.alerts(), [], "so many may die");
    let one_more = fixture.dead_letter_all(&[message(ACCOUNTS, BAD)]).await[0];
    until("somebody is alerted", || !fixture.alerts().is_empty()).await;
    let alerts = fixture.alerts();
    assert_eq!((alerts.len(), alerts[0].message_id), (1, one_more));
    let called_back = fixture.called_back();
    assert_eq!(called_back.len(), usize::from(DEAD_LETTERS_MAX) + 1, "each once: {called_back:?}");
    for letter in called_back {
        assert_eq!((&*letter.kind, letter.attempts), ("order.placed", 1));
        assert!(letter.reason.starts_with("attempts"), "{}", letter.reason);
    }
}
