use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, Marking, RedrivePace, Unprocessed};

use super::yard::{Handle, ORDERS, Yard, message, until_async};
use super::{ask, beside_relays};

beside_relays!(what_was_sent_is_confirmed_or_goes_again, a_mark_may_come_before_the_settle);

fn late() -> Unprocessed {
    Unprocessed::of(ORDERS).past(Duration::ZERO)
}

/// Waits until the relay has put it into the history.
async fn is_sent(yard: &Yard, id: MessageId) {
    until_async("it is in the history", async || ask!(yard, sent(id)).is_ok()).await;
}

/// Waits until as many are late: a database whose clock ticks in milliseconds takes one for it.
async fn are_late(yard: &Yard, count: usize) {
    until_async("they are late", async || unprocessed(yard).await.len() == count).await;
}

async fn unprocessed(yard: &Yard) -> Vec<MessageId> {
    let page = ask!(yard, unprocessed(&late(), None, 10)).expect("unprocessed");
    page.messages.into_iter().map(|sent| sent.message_id).collect()
}

async fn what_was_sent_is_confirmed_or_goes_again(yard: &mut Yard) {
    let mut ids = Vec::new();
    // One after the other, so that they are in the history in this order.
    for key in ["1", "2", "3"] {
        let id = yard.enqueue(&message(ORDERS, key));
        is_sent(yard, id).await;
        ids.push(id);
    }
    assert_eq!(ask!(yard, mark_processed(ids[0])).expect("mark"), Marking::Marked);
    assert_eq!(ask!(yard, mark_processed(ids[0])).expect("mark"), Marking::Already);
    are_late(yard, 2).await;
    assert_eq!(unprocessed(yard).await, ids[1..]);
    let counted = ask!(yard, count_sent(ORDERS, 100)).expect("count");
    assert_eq!((counted.sent, counted.unprocessed), (3, 2));

    ask!(yard, send_again(ids[1])).expect("send again");
    yard.delivered(&[ids[1], ids[1]]).await;
    is_sent(yard, ids[1]).await;
    let error = ask!(yard, send_again(ids[0])).expect_err("it is processed");
    assert!(matches!(error, AdminError::NotUnprocessed { .. }), "{error}");

    are_late(yard, 2).await;
    let mut told = Vec::new();
    let went = ask!(yard, send_all_again(&late(), RedrivePace::default(), |so_far| told.push(so_far)));
    assert_eq!((went.expect("send again"), told), (2, vec![2]));
    yard.delivered(&[ids[1], ids[1], ids[1], ids[2], ids[2]]).await;
    for id in [ids[1], ids[2]] {
        is_sent(yard, id).await;
        assert_eq!(ask!(yard, mark_processed(id)).expect("mark"), Marking::Marked);
    }
    assert_eq!(unprocessed(yard).await, []);
    let page = ask!(yard, sent_of_key(ORDERS, "2", None, 10)).expect("of its key");
    assert_eq!(
        page.messages.iter().map(|sent| sent.message_id).collect::<Vec<_>>(),
        [ids[1]],
        "once, however often sent"
    );
}

async fn a_mark_may_come_before_the_settle(yard: &mut Yard) {
    yard.broker.hold();
    let id = yard.enqueue(&message(ORDERS, "1"));
    assert_eq!(ask!(yard, mark_processed(id)).expect("mark"), Marking::Ahead);
    yard.broker.release();
    is_sent(yard, id).await;
    assert!(ask!(yard, sent(id)).expect("sent").processed_at.is_some());
    assert_eq!(unprocessed(yard).await, []);
}
