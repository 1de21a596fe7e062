use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, ProcessedOutcome, RedriveRate, UnprocessedFilter};

use super::fixture::{Fixture, Handle, ORDERS, message, until_async};
use super::{admin_tests, call};

admin_tests!(sent_messages_are_confirmed_or_sent_again, processed_may_be_reported_before_the_settle);

fn late() -> UnprocessedFilter {
    UnprocessedFilter::of(ORDERS).older_than(Duration::ZERO)
}

/// Waits until the relay has put it into the history.
async fn is_sent(fixture: &Fixture, id: MessageId) {
    until_async("it is in the history", async || call!(fixture, sent(id)).is_ok()).await;
}

/// Waits until as many are late: a database whose clock ticks in milliseconds takes one for it.
async fn are_late(fixture: &Fixture, count: usize) {
    until_async("they are late", async || unprocessed(fixture).await.len() == count).await;
}

async fn unprocessed(fixture: &Fixture) -> Vec<MessageId> {
    let page = call!(fixture, unprocessed(&late(), None, 10)).expect("unprocessed");
    page.items.into_iter().map(|sent| sent.message_id).collect()
}

async fn sent_messages_are_confirmed_or_sent_again(fixture: &mut Fixture) {
    let mut ids = Vec::new();
    // One after the other, so that they are in the history in this order.
    for key in ["1", "2", "3"] {
        let id = fixture.enqueue(&message(ORDERS, key));
        is_sent(fixture, id).await;
        ids.push(id);
    }
    assert_eq!(call!(fixture, report_processed(ids[0])).expect("report"), ProcessedOutcome::Processed);
    assert_eq!(call!(fixture, report_processed(ids[0])).expect("report"), ProcessedOutcome::AlreadyProcessed);
    are_late(fixture, 2).await;
    assert_eq!(unprocessed(fixture).await, ids[1..]);
    let counted = call!(fixture, count_sent(ORDERS, 100)).expect("count");
    assert_eq!((counted.sent, counted.unprocessed), (3, 2));

    call!(fixture, resend(ids[1])).expect("send again");
    fixture.delivered(&[ids[1], ids[1]]).await;
    is_sent(fixture, ids[1]).await;
    let error = call!(fixture, resend(ids[0])).expect_err("it is processed");
    assert!(matches!(error, AdminError::NotUnprocessed { .. }), "{error}");

    are_late(fixture, 2).await;
    let mut called_back = Vec::new();
    let went = call!(fixture, resend_all(&late(), RedriveRate::default(), |so_far| called_back.push(so_far)));
    assert_eq!((went.expect("send again"), called_back), (2, vec![2]));
    fixture.delivered(&[ids[1], ids[1], ids[1], ids[2], ids[2]]).await;
    for id in [ids[1], ids[2]] {
        is_sent(fixture, id).await;
        assert_eq!(call!(fixture, report_processed(id)).expect("report"), ProcessedOutcome::Processed);
    }
    assert_eq!(unprocessed(fixture).await, []);
    let page = call!(fixture, sent_of_key(ORDERS, "2", None, 10)).expect("of its key");
    assert_eq!(page.items.iter().map(|sent| sent.message_id).collect::<Vec<_>>(), [ids[1]], "once, however often sent");
}

async fn processed_may_be_reported_before_the_settle(fixture: &mut Fixture) {
    fixture.broker.hold();
    let id = fixture.enqueue(&message(ORDERS, "1"));
    assert_eq!(call!(fixture, report_processed(id)).expect("report"), ProcessedOutcome::NotSettledYet);
    fixture.broker.release();
    is_sent(fixture, id).await;
    assert!(call!(fixture, sent(id)).expect("sent").processed_at.is_some());
    assert_eq!(unprocessed(fixture).await, []);
}
