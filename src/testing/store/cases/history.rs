use crate::message::{Headers, MessageId};
use crate::store::{Held, HistoryRow, HistoryStore, InsertOptions, Keep, Locking, NewDeadLetter, RowKey, SentCursor};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const KEEP: Keep = Keep { days: 7, awaits_processing: false };

fn kept(key: RowKey) -> HistoryRow {
    HistoryRow { key, keep: KEEP }
}

async fn is_sent(history: &dyn HistoryStore, key: RowKey) -> bool {
    history.sent(key.message_id).await.expect("sent").is_some()
}

/// A settled message is in the history with everything it had, and no longer in the live table.
pub async fn settle_into_history_moves_the_whole_message(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    history.check_history().await.expect("the tables are there");
    let mut envelope = message(TOPIC);
    envelope.headers = [("trace", "a"), ("trace", "b")].into_iter().collect::<Headers>();
    let began_at = under_test.now().await;
    let key = under_test.insert(&envelope, DUE).await;
    under_test.store().fail(&[failed(Held { key, epoch: 0 }, "no leader")]).await.expect("fail");
    let (window, settled) = WriteWindow::of(under_test, history.settle_into_history(&[kept(key)], Locking::Skip)).await;
    assert_eq!(settled.expect("settle"), [key]);
    assert!(under_test.live_rows().await.is_empty());

    let sent = history.sent(key.message_id).await.expect("sent").expect("it is kept");
    assert_eq!((sent.message_id, &*sent.topic, sent.lane), (key.message_id, TOPIC, None));
    assert_eq!((sent.key.as_deref(), &*sent.kind), (Some("42"), "order.placed"));
    assert_eq!(sent.headers().expect("headers"), envelope.headers);
    assert_eq!(sent.payload, envelope.payload);
    assert_eq!((sent.attempts, sent.failures), (1, 1));
    assert_eq!((sent.awaits_processing, sent.processed_at), (false, None));
    window.assert_at(sent.sent_at);
    assert!(began_at <= sent.created_at && sent.created_at <= sent.sent_at);
    assert_eq!(history.sent(MessageId::new()).await.expect("sent"), None);
}

/// Settling again changes nothing: there is one message, with its first time.
pub async fn settle_into_history_again_changes_nothing(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let key = insert(under_test, DUE).await;
    assert_eq!(history.settle_into_history(&[kept(key)], Locking::Skip).await.expect("settle"), [key]);
    let first = history.sent(key.message_id).await.expect("sent");
    for locking in [Locking::Skip, Locking::Wait] {
        assert_eq!(history.settle_into_history(&[kept(key)], locking).await.expect("settle"), []);
    }
    assert_eq!(history.settle_dead_letters_into_history(&[kept(key)]).await.expect("settle_dead_letters"), 0);
    assert_eq!(history.sent(key.message_id).await.expect("sent"), first);
    assert_eq!(history.count_sent(&TOPIC.into(), 10).await.expect("count").sent, 1);
    assert_eq!(history.settle_into_history(&[], Locking::Skip).await.expect("settle"), []);
    assert_eq!(history.settle_dead_letters_into_history(&[]).await.expect("settle_dead_letters"), 0);
}

/// A late settle moves no other message that got the same id.
pub async fn settle_into_history_requires_id_and_message_id(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let key = insert(under_test, DUE).await;
    for locking in [Locking::Skip, Locking::Wait] {
        let settled = history.settle_into_history(&[kept(other_message(key))], locking).await.expect("settle");
        assert!(settled.is_empty(), "{settled:?} was settled by its id alone");
    }
    assert_eq!(live_keys(under_test).await, [key]);
    assert!(!is_sent(history, key).await && !is_sent(history, other_message(key)).await);
}

/// Rows that others have locked are skipped, neither removed nor kept, or the call waits for them.
pub async fn settle_into_history_respects_locks(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let inserted = insert_due(under_test, 2).await;
    let Some(lock) = under_test.lock(inserted[0]).await else { return };
    let rows: Vec<HistoryRow> = inserted.iter().map(|key| kept(*key)).collect();
    assert_eq!(history.settle_into_history(&rows, Locking::Skip).await.expect("settle"), [inserted[1]]);
    assert!(!is_sent(history, inserted[0]).await && is_sent(history, inserted[1]).await);
    let mut settle = history.settle_into_history(&rows, Locking::Wait);
    let early = tokio::time::timeout(SHORT_WAIT, &mut settle).await;
    assert!(early.is_err(), "it did not wait: {early:?}");
    let (settled, ()) = tokio::join!(settle, lock.roll_back());
    assert_eq!(settled.expect("settle"), [inserted[0]]);
    assert!(is_sent(history, inserted[0]).await && under_test.live_rows().await.is_empty());
}

/// A claim of a topic with a history moves delivered rows, and nothing else.
pub async fn close_moves_delivered_rows_into_history(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let inserted = insert_due(under_test, 3).await;
    let claim = claim(under_test, &crate::store::ClaimSpec { keep: Some(KEEP), ..spec(TOPIC) }).await;
    let closed = claim.handle.close(&inserted[..1], &inserted[1..2]).await.expect("close");
    assert_eq!(closed.settled, inserted[..1]);
    assert_eq!(live_keys(under_test).await, inserted[1..]);
    assert!(is_sent(history, inserted[0]).await);
    assert!(!is_sent(history, inserted[1]).await && !is_sent(history, inserted[2]).await);
}

/// Without a history, close and settle delete.
pub async fn rows_without_history_are_deleted(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let inserted = insert_due(under_test, 2).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    claim.handle.close(&inserted[..1], &[]).await.expect("close");
    assert_eq!(under_test.store().settle(&inserted[1..], Locking::Skip).await.expect("settle"), inserted[1..]);
    assert_eq!(history.count_sent(&TOPIC.into(), 10).await.expect("count").sent, 0);
}

/// A message that was delivered after all moves from the dead letters to the history.
pub async fn settle_dead_letters_into_history_moves_them(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let keys = insert_due(under_test, 3).await;
    let dead: Vec<NewDeadLetter> = keys[..2].iter().map(|&key| to_dead_letter(Held { key, epoch: 0 })).collect();
    assert_eq!(under_test.store().dead_letter(&dead).await.expect("dead_letter").len(), 2);
    let settled =
        history.settle_dead_letters_into_history(&[kept(keys[0]), kept(keys[2])]).await.expect("settle_dead_letters");
    assert_eq!(settled, 1);
    assert_eq!(dead_letter_keys(under_test).await, keys[1..2]);
    assert_eq!(live_keys(under_test).await, keys[2..], "a live row is not removed with the dead letters");
    let sent = history.sent(keys[0].message_id).await.expect("sent").expect("it is kept");
    assert_eq!((sent.key.as_deref(), sent.payload), (Some("42"), message(TOPIC).payload));
    // A purge is no delivery.
    assert_eq!(under_test.store().settle_dead_letters(&[keys[1]]).await.expect("settle_dead_letters"), 1);
    assert!(!is_sent(history, keys[1]).await);
}

/// Many rows, of several topics with their own numbers of days, move in one call.
pub async fn a_thousand_rows_move_into_history_in_one_call(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let rows: Vec<HistoryRow> = insert_due(under_test, 1_000).await.into_iter().map(kept).collect();
    assert_eq!(history.settle_into_history(&rows, Locking::Skip).await.expect("settle").len(), 1_000);
    assert!(under_test.live_rows().await.is_empty());
    assert_eq!(history.count_sent(&TOPIC.into(), 2_000).await.expect("count").sent, 1_000);
}

/// Pages of a key join without gaps or duplicates, by time of sending.
pub async fn sent_of_key_comes_in_pages(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let (mut ours, topic) = (Vec::new(), TOPIC.into());
    for (topic, key) in [(TOPIC, "1"), (TOPIC, "2"), (TOPIC, "1"), ("invoices", "1"), (TOPIC, "1")] {
        let mut envelope = message(topic);
        envelope.key = Some(key.to_owned());
        let row = under_test.insert(&envelope, DUE).await;
        history.settle_into_history(&[kept(row)], Locking::Skip).await.expect("settle");
        if (topic, key) == (TOPIC, "1") {
            ours.push(row.message_id);
        }
    }
    let (mut seen, mut after): (Vec<_>, Option<SentCursor>) = (Vec::new(), None);
    loop {
        let page = history.sent_of_key(&topic, &"1".into(), after.as_ref(), 2).await.expect("sent of a key");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        seen.extend(page.iter().map(|sent| (sent.sent_at, sent.message_id)));
        assert!(seen.len() <= ours.len(), "a row is on two pages");
    }
    assert!(seen.is_sorted(), "by time and id: {seen:?}");
    let mut seen: Vec<_> = seen.into_iter().map(|(_, id)| id).collect();
    seen.sort_unstable();
    ours.sort_unstable();
    assert_eq!(seen, ours);
    assert_eq!(history.sent_of_key(&topic, &"3".into(), None, 10).await.expect("sent of a key"), []);
}

/// Counted by topic, up to the limit.
pub async fn sent_is_counted(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let awaiting = Keep { awaits_processing: true, ..KEEP };
    let keys = insert_due(under_test, 4).await;
    let rows =
        [kept(keys[0]), HistoryRow { key: keys[1], keep: awaiting }, HistoryRow { key: keys[2], keep: awaiting }];
    history.settle_into_history(&rows, Locking::Skip).await.expect("settle");
    let count = history.count_sent(&TOPIC.into(), 10).await.expect("count");
    assert_eq!((count.sent, count.unprocessed), (3, 2));
    let count = history.count_sent(&TOPIC.into(), 1).await.expect("count");
    assert_eq!((count.sent, count.unprocessed), (1, 1));
    let count = history.count_sent(&"invoices".into(), 10).await.expect("count");
    assert_eq!((count.sent, count.unprocessed), (0, 0));
}

/// A row of a lane keeps its lane.
pub async fn lane_row_moves_into_history(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let key = insert(under_test, InsertOptions::default().in_lane(3)).await;
    assert_eq!(history.settle_into_history(&[kept(key)], Locking::Skip).await.expect("settle"), [key]);
    let sent = history.sent(key.message_id).await.expect("sent").expect("it is kept");
    assert_eq!(sent.lane, Some(3));
}
