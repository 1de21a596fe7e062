use std::time::{Duration, SystemTime};

use crate::message::MessageId;
use crate::store::{
    HistoryRow, HistoryStore, InsertOptions, Keep, LiveRow, Locking, ProcessedOutcome, RowKey, SentCursor, SentMessage,
};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const AWAITING: Keep = Keep { days: 30, awaits_processing: true };

async fn settle(history: &dyn HistoryStore, key: RowKey) {
    assert_eq!(
        history.settle_into_history(&[HistoryRow { key, keep: AWAITING }], Locking::Skip).await.expect("settle"),
        [key]
    );
}

async fn send(under_test: &dyn StoreUnderTest, history: &dyn HistoryStore) -> RowKey {
    let key = insert(under_test, DUE).await;
    settle(history, key).await;
    key
}

async fn report(history: &dyn HistoryStore, key: RowKey) -> ProcessedOutcome {
    let reported = history.report_processed(&[key.message_id], None).await.expect("report");
    let [(message_id, outcome)] = reported[..] else { panic!("one answer: {reported:?}") };
    assert_eq!(message_id, key.message_id);
    outcome
}

/// The live row of a message that was requeued.
async fn sent_again(under_test: &dyn StoreUnderTest, sent: RowKey) -> LiveRow {
    let rows = under_test.live_rows().await;
    let again = rows.into_iter().find(|row| row.key.message_id == sent.message_id);
    again.unwrap_or_else(|| panic!("{sent:?} has no live row"))
}

async fn processed_at(history: &dyn HistoryStore, key: RowKey) -> Option<SystemTime> {
    history.sent(key.message_id).await.expect("sent").expect("it is kept").processed_at
}

async fn unprocessed(history: &dyn HistoryStore, age_min: Duration) -> Vec<MessageId> {
    let mut found: Vec<_> = history.unprocessed(&TOPIC.into(), age_min, None, 100).await.expect("unprocessed");
    found.sort_by_key(|sent| sent.message_id);
    found.into_iter().map(|sent| sent.message_id).collect()
}

/// A report keeps its first time, whoever repeats it.
pub async fn processed_report_is_recorded_once(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let (key, other) = (send(under_test, history).await, send(under_test, history).await);
    assert_eq!(processed_at(history, key).await, None);
    let (window, outcome) = WriteWindow::of(under_test, report(history, key)).await;
    assert_eq!(outcome, ProcessedOutcome::Processed);
    let first = processed_at(history, key).await;
    window.assert_at(first.expect("it is processed"));
    assert_eq!(report(history, key).await, ProcessedOutcome::AlreadyProcessed);
    assert_eq!((processed_at(history, key).await, processed_at(history, other).await), (first, None));
    let mut many =
        history.report_processed(&[key.message_id, other.message_id, other.message_id], None).await.expect("report");
    many.sort_by_key(|(message_id, _)| *message_id);
    let mut expected =
        [(key.message_id, ProcessedOutcome::AlreadyProcessed), (other.message_id, ProcessedOutcome::Processed)];
    expected.sort_by_key(|(message_id, _)| *message_id);
    assert_eq!(many, expected);
    assert_eq!(history.report_processed(&[], None).await.expect("report"), []);
}

/// A consumer that is faster than the settle loses nothing.
pub async fn processed_report_waits_for_its_message(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let key = insert(under_test, DUE).await;
    let (window, outcome) = WriteWindow::of(under_test, report(history, key)).await;
    assert_eq!(
        (outcome, report(history, key).await),
        (ProcessedOutcome::NotSettledYet, ProcessedOutcome::NotSettledYet)
    );
    settle(history, key).await;
    window.assert_at(processed_at(history, key).await.expect("it was reported before it was sent"));
    assert_eq!(unprocessed(history, Duration::ZERO).await, []);
    assert_eq!(report(history, key).await, ProcessedOutcome::AlreadyProcessed);
    // The settle applied the report: nothing is left to copy to its message.
    under_test.advance(DAY).await;
    assert_eq!(history.apply_processed_reports(Duration::ZERO, 100).await.expect("apply_processed_reports"), 0);
}

/// Report and settle at the same time: whichever comes first, the message is processed.
pub async fn processed_report_concurrent_with_a_settle_is_not_lost(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    for _ in 0..20 {
        let key = insert(under_test, DUE).await;
        let (outcome, ()) = tokio::join!(report(history, key), settle(history, key));
        assert_ne!(outcome, ProcessedOutcome::AlreadyProcessed);
        assert!(processed_at(history, key).await.is_some(), "the report was {outcome:?}, and is lost");
        assert_eq!(report(history, key).await, ProcessedOutcome::AlreadyProcessed);
    }
    assert_eq!(unprocessed(history, Duration::ZERO).await, []);
    assert_eq!(history.count_sent(&TOPIC.into(), 100).await.expect("count").unprocessed, 0);
}

/// Every read includes a report that is still stored separately, and in time it is copied to its message.
pub async fn old_processed_reports_are_applied_to_their_messages(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let key = insert(under_test, DUE).await;
    assert_eq!(report(history, key).await, ProcessedOutcome::NotSettledYet);
    // Its topic did not await processing when it was settled, so the settle did not look for reports.
    let keep = Keep { awaits_processing: false, ..AWAITING };
    history.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.expect("settle");
    let reported_at = processed_at(history, key).await;
    assert!(reported_at.is_some());
    assert_eq!(history.resend(&[requeue(key.message_id, None)], None).await.expect("resend"), [], "it is processed");
    let never_sent = insert(under_test, DUE).await;
    assert_eq!(report(history, never_sent).await, ProcessedOutcome::NotSettledYet);
    assert_eq!(history.apply_processed_reports(DAY, 100).await.expect("apply_processed_reports"), 0, "they are young");
    under_test.advance(DAY * 2).await;
    assert_eq!(history.apply_processed_reports(DAY, 100).await.expect("apply_processed_reports"), 2);
    assert_eq!(history.apply_processed_reports(DAY, 100).await.expect("apply_processed_reports"), 0);
    assert!(processed_at(history, key).await.is_some(), "it is in its message now");
    assert_eq!(report(history, never_sent).await, ProcessedOutcome::NotSettledYet, "what was never sent is forgotten");
}

/// Messages that await processing, are not processed and were sent long enough ago; in pages.
pub async fn unprocessed_comes_in_pages(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let mut late = Vec::new();
    for _ in 0..5 {
        late.push(send(under_test, history).await.message_id);
    }
    let processed = send(under_test, history).await;
    report(history, processed).await;
    let not_awaited = insert(under_test, DUE).await;
    let keep = Keep { awaits_processing: false, ..AWAITING };
    history.settle_into_history(&[HistoryRow { key: not_awaited, keep }], Locking::Skip).await.expect("settle");
    under_test.advance(DAY * 2).await;
    send(under_test, history).await;
    late.sort_unstable();
    assert_eq!(unprocessed(history, DAY).await, late);
    assert_eq!(unprocessed(history, DAY * 3).await, []);
    let (mut seen, mut after): (Vec<_>, Option<SentCursor>) = (Vec::new(), None);
    loop {
        let cursors = history.unprocessed_cursors(&TOPIC.into(), DAY, after.as_ref(), 2).await.expect("their cursors");
        let page = history.unprocessed(&TOPIC.into(), DAY, after.as_ref(), 2).await.expect("unprocessed");
        let Some(last) = page.last() else { break };
        assert_eq!(page.iter().map(SentMessage::cursor).collect::<Vec<_>>(), cursors);
        after = Some(last.cursor());
        seen.extend(page.iter().map(|sent| (sent.sent_at, sent.message_id)));
        assert!(seen.len() <= late.len(), "a row is on two pages");
    }
    assert!(seen.is_sorted(), "by time and id: {seen:?}");
    assert_eq!(seen.len(), late.len());
    assert_eq!(history.unprocessed(&"invoices".into(), DAY, None, 10).await.expect("unprocessed"), []);
}

/// A resent message is live as it was, under its message id and the next epoch; a processed one stays.
pub async fn resend_requeues_messages(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let (key, processed) = (send(under_test, history).await, send(under_test, history).await);
    report(history, processed).await;
    let requested = [key.message_id, processed.message_id, MessageId::new()].map(|message| requeue(message, None));
    let (window, moved) = WriteWindow::of(under_test, history.resend(&requested, None)).await;
    assert_eq!(moved.expect("resend"), [key.message_id]);
    assert_eq!(history.sent(key.message_id).await.expect("sent"), None, "in one of the two at a time");
    let row = sent_again(under_test, key).await;
    window.assert_due_after(&row, Duration::ZERO);
    assert_eq!((row.epoch, row.attempts, row.failures), (1, 0, 0));
    assert_eq!(history.resend(&requested, None).await.expect("resend"), [], "it is live again");
    // The first copy is processed at last, while the second is in flight.
    assert_eq!(report(history, key).await, ProcessedOutcome::NotSettledYet);
    let claim = claim(under_test, &crate::store::ClaimSpec { keep: Some(AWAITING), ..spec(TOPIC) }).await;
    assert_eq!(keys(&claim.rows), [row.key]);
    claim.handle.close(&[row.key], &[]).await.expect("close");
    assert!(processed_at(history, key).await.is_some());
    assert_eq!(history.resend(&[], None).await.expect("resend"), []);
}

/// The settle of an earlier copy may come late, or again because its answer was lost: it must not remove the new copy.
pub async fn resend_survives_a_late_settle(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    for (options, lane) in [(DUE, None), (InsertOptions::default().in_lane(3), Some(3))] {
        let key = insert(under_test, options).await;
        settle(history, key).await;
        history.resend(&[requeue(key.message_id, lane)], None).await.expect("resend");
        for locking in [Locking::Skip, Locking::Wait] {
            assert_eq!(
                history.settle_into_history(&[HistoryRow { key, keep: AWAITING }], locking).await.expect("settle"),
                []
            );
            assert_eq!(under_test.store().settle(&[key], locking).await.expect("settle"), []);
        }
        let again = sent_again(under_test, key).await.key;
        assert_eq!(history.sent(key.message_id).await.expect("sent"), None, "it is live again");
        settle(history, again).await;
    }
}

/// In a lane, resent messages go after everything that is there, in the order in which they were enqueued.
pub async fn resend_goes_to_the_tail_of_a_lane(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let mut rows = Vec::new();
    for _ in 0..3 {
        rows.push(insert(under_test, InsertOptions::default().in_lane(3)).await);
    }
    let [first, second, stays] = rows[..] else { unreachable!("three rows") };
    for row in [second, first] {
        settle(history, row).await;
    }
    let requeues = [second, first, second].map(|row| requeue(row.message_id, Some(3)));
    assert_eq!(history.resend(&requeues, None).await.expect("resend").len(), 2, "one that is named twice comes once");
    let order: Vec<MessageId> = under_test.live_rows().await.iter().map(|row| row.key.message_id).collect();
    assert_eq!(order, [stays.message_id, first.message_id, second.message_id]);
}
