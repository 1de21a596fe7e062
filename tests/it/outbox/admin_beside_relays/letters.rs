use std::time::{Duration, Instant};

use diesel_outbox::admin::{AdminError, DeadFilter, RedrivePace};
use diesel_outbox::{Message, MessageId};

use super::yard::{ACCOUNTS, BAD, Handle, LETTERS_MAX, ORDERS, PAYMENTS, Yard, message, until};
use super::{ask, beside_relays};

beside_relays!(
    one_letter_is_read_and_goes_again,
    letters_go_again_by_filter_and_at_their_pace,
    an_edited_letter_goes_in_place_of_the_old,
    purged_letters_are_gone,
    listeners_are_told,
);

async fn one_letter_is_read_and_goes_again(yard: &mut Yard) {
    for topic in [ORDERS, ACCOUNTS, PAYMENTS] {
        let id = yard.bury(&[message(topic, BAD)]).await[0];
        let letter = ask!(yard, dead_letter(id)).expect("it is dead");
        // Its one failure was the last, and is the reason.
        assert_eq!((&*letter.topic, letter.attempts, letter.errors.len()), (topic, 0, 0), "{letter:?}");
        assert!(letter.reason.starts_with("attempts: record: "), "{}", letter.reason);
        let text = match &yard.handle {
            Handle::Async(admin) => admin.payload_text(&letter).to_string(),
            Handle::Blocking(admin) => {
                tokio::task::block_in_place(|| admin.run(async |admin| admin.payload_text(&letter).to_string()))
            }
        };
        let is_registered = topic == ORDERS;
        assert_eq!(text == r#"placed: {"order_id":42}"#, is_registered, "{text}");
        assert_eq!(text.contains("not registered"), !is_registered, "{text}");

        assert!(!yard.is_delivered(id));
        ask!(yard, redrive(id)).expect("redrive");
        yard.delivered(&[id]).await;
        let error = ask!(yard, redrive(id)).expect_err("it is dead no more");
        assert!(matches!(error, AdminError::NotDead { message_id } if message_id == id), "{error}");
    }
}

async fn letters_go_again_by_filter_and_at_their_pace(yard: &mut Yard) {
    let returned = message(PAYMENTS, BAD).kind("payment.returned");
    let messages: Vec<Message> =
        (0..5).map(|_| message(PAYMENTS, BAD)).chain((0..3).map(|_| returned.clone())).collect();
    let ids = yard.bury(&messages).await;
    let (placed, returned): (&[MessageId], &[MessageId]) = ids.split_at(5);
    let (began, mut told) = (Instant::now(), Vec::new());
    let (filter, pace) = (DeadFilter::new().kind("order.placed"), RedrivePace::default().rows_max(2).per_second(2));
    let went = ask!(yard, redrive_all(&filter, pace, |so_far| told.push(so_far))).expect("redrive");
    assert_eq!((went, told), (5, vec![2, 4, 5]));
    assert!(began.elapsed() > Duration::from_millis(1_500), "two a second: {:?}", began.elapsed());
    yard.delivered(placed).await;
    assert!(!returned.iter().any(|id| yard.is_delivered(*id)), "the filter does not match them");
    let counts = ask!(yard, count_dead()).expect("count");
    assert_eq!(
        counts.iter().map(|of| (&*of.topic, &*of.reason, of.letters)).collect::<Vec<_>>(),
        [(PAYMENTS, "attempts", 3)]
    );

    let went = ask!(yard, redrive_all(&DeadFilter::new(), RedrivePace::default(), |_| {})).expect("redrive");
    assert_eq!(went, 3);
    yard.delivered(returned).await;
    assert_eq!(ask!(yard, count_dead()).expect("count"), []);
}

async fn an_edited_letter_goes_in_place_of_the_old(yard: &mut Yard) {
    for topic in [ACCOUNTS, PAYMENTS] {
        let id = yard.bury(&[message(topic, BAD)]).await[0];
        let letter = ask!(yard, dead_letter(id)).expect("it is dead");
        let edited = letter.to_message().expect("it is whole").payload_bytes("mended");
        let new_id = ask!(yard, redrive_edited(id, &edited)).expect("redrive");
        yard.delivered(&[new_id]).await;
        let sent = yard.broker.delivered().into_iter().find(|sent| sent.message_id == new_id).expect("delivered");
        assert_eq!((&*sent.topic, sent.payload.as_deref()), (topic, Some(&b"mended"[..])));
        assert!(!yard.is_delivered(id), "the old one is gone");
        let error = ask!(yard, redrive_edited(id, &edited)).expect_err("it is replaced");
        assert!(matches!(error, AdminError::NotDead { .. }), "{error}");
    }
}

async fn purged_letters_are_gone(yard: &mut Yard) {
    let ids = yard.bury(&[message(ORDERS, BAD), message(ORDERS, BAD), message(ACCOUNTS, BAD)]).await;
    ask!(yard, purge(ids[0])).expect("purge");
    let error = ask!(yard, purge(ids[0])).expect_err("it is gone");
    assert!(matches!(error, AdminError::NotDead { .. }), "{error}");
    let error = ask!(yard, purge_all(&DeadFilter::new(), |_| {})).expect_err("no condition");
    assert!(matches!(error, AdminError::NoFilter), "{error}");
    assert_eq!(ask!(yard, purge_all(&DeadFilter::new().topic(ORDERS), |_| {})).expect("purge"), 1);
    let page = ask!(yard, dead_letters(&DeadFilter::new(), None, 10)).expect("letters");
    assert_eq!(page.letters.iter().map(|letter| letter.message_id).collect::<Vec<_>>(), [ids[2]]);
    assert_eq!(ask!(yard, purge_all(&DeadFilter::everything(), |_| {})).expect("purge"), 1);
    // Behind them on the same way, so that they would have come before it.
    let last = [yard.enqueue(&message(ORDERS, "good")), yard.enqueue(&message(ACCOUNTS, BAD))];
    yard.delivered(&last).await;
    assert!(!ids.iter().any(|id| yard.is_delivered(*id)));
}

async fn listeners_are_told(yard: &mut Yard) {
    let within: Vec<Message> = (0..LETTERS_MAX).map(|_| message(ORDERS, BAD)).collect();
    yard.bury(&within).await;
    assert_eq!(yard.alerts(), [], "so many may die");
    let one_more = yard.bury(&[message(ACCOUNTS, BAD)]).await[0];
    until("somebody is alerted", || !yard.alerts().is_empty()).await;
    let alerts = yard.alerts();
    assert_eq!((alerts.len(), alerts[0].letters_max, alerts[0].last.message_id), (1, LETTERS_MAX, one_more));
    let told = yard.told();
    assert_eq!(told.len(), usize::from(LETTERS_MAX) + 1, "each once: {told:?}");
    for letter in told {
        assert_eq!((&*letter.kind, letter.attempts), ("order.placed", 1));
        assert!(letter.reason.starts_with("attempts"), "{}", letter.reason);
    }
}
