use std::time::{Duration, SystemTime};

use crate::message::{Headers, MessageId};
use crate::store::{
    AdminStore, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, DeadLetterGroup, DeadLetterReason, Held,
    InsertOptions, Locking,
};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Ids of the dead letters that a filter finds, in their order.
async fn found(admin: &dyn AdminStore, filter: DeadLetterFilter) -> Vec<MessageId> {
    let letters = admin.dead_letters(&filter, None, None, 100).await.expect("dead letters");
    let cursors = admin.dead_letter_cursors(&filter, None, 100).await.expect("dead-letter cursors");
    let found: Vec<MessageId> = letters.iter().map(|letter| letter.message_id).collect();
    assert_eq!(letters.iter().map(|letter| letter.cursor()).collect::<Vec<_>>(), cursors, "both return the same");
    found
}

/// A dead letter has its whole message, with attempts, errors and times.
pub async fn dead_letter_has_the_whole_message(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let began_at = under_test.now().await;
    let mut envelope = message(TOPIC);
    envelope.headers = [("trace", "a"), ("trace", "b")].into_iter().collect::<Headers>();
    let key = under_test.insert(&envelope, DUE).await;
    under_test.store().fail(&[failed(Held { key, epoch: 0 }, "no leader")]).await.expect("fail");
    dead_letter(under_test, key, 1, "refused: too large").await;

    let letter = admin.find_dead_letter(key.message_id).await.expect("dead letter").expect("it is dead");
    assert_eq!((letter.message_id, &*letter.topic, letter.lane), (key.message_id, TOPIC, None));
    assert_eq!((letter.key.as_deref(), &*letter.kind), (Some("42"), "order.placed"));
    assert_eq!(letter.headers().expect("headers"), envelope.headers);
    assert_eq!(letter.payload, envelope.payload);
    assert_eq!((letter.attempts, letter.failures), (1, 1));
    let [error] = &letter.errors[..] else { panic!("one failure: {:?}", letter.errors) };
    assert_eq!((&*error.class, &*error.error), ("temporary", "no leader"));
    assert_eq!((&*letter.reason, letter.typed_reason()), ("refused: too large", DeadLetterReason::Refused));
    let ended_at = under_test.now().await;
    for at in [letter.created_at, letter.dead_at] {
        assert!(began_at <= at && at <= ended_at, "{at:?}, not from {began_at:?} to {ended_at:?}");
    }
    assert_eq!(admin.find_dead_letter(MessageId::new()).await.expect("dead letter"), None);
    let live = insert(under_test, DUE).await;
    assert_eq!(admin.find_dead_letter(live.message_id).await.expect("dead letter"), None, "it is live");
}

/// Pages join without gaps or duplicates, whatever is added or removed meanwhile.
pub async fn dead_letters_come_in_pages(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let mut dead = Vec::new();
    for topic in ["invoices", TOPIC] {
        for _ in 0..3 {
            dead.push(insert_dead_letter(under_test, topic, "1", "attempts").await.message_id);
        }
    }
    let (mut seen, mut after, everything): (Vec<_>, Option<DeadLetterCursor>, _) =
        (Vec::new(), None, DeadLetterFilter::new());
    loop {
        let page = admin.dead_letters(&everything, after.as_ref(), None, 2).await.expect("dead letters");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        seen.extend(page.iter().map(|letter| (letter.topic.clone(), letter.dead_at, letter.message_id)));
        assert!(seen.len() <= dead.len(), "a row is on two pages");
    }
    assert!(seen.is_sorted(), "by topic, time of death and id: {seen:?}");
    let mut ids: Vec<_> = seen.into_iter().map(|(_, _, id)| id).collect();
    ids.sort_unstable();
    dead.sort_unstable();
    assert_eq!(ids, dead);
}

/// A search may end at any position: within a topic, and in a later one. A scan ends where it has read enough of what the index finds.
pub async fn dead_letters_are_found_up_to_the_end_of_a_scan(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    for topic in ["invoices", TOPIC, "reminders"] {
        for key in ["1", "2", "1"] {
            insert_dead_letter(under_test, topic, key, "attempts").await;
        }
    }
    let (all, key) = (DeadLetterFilter::new(), DeadLetterFilter::new().key("1"));
    let positions = admin.dead_letter_cursors(&all, None, 100).await.expect("dead-letter cursors");
    let starts = std::iter::once(None).chain(positions.iter().map(Some));
    for (skipped, after) in starts.enumerate() {
        for rows in 1..=positions.len() {
            let end = admin.dead_letter_scan_end(&key, after, rows).await.expect("the end");
            assert_eq!(end.as_ref(), positions[skipped..].get(rows - 1), "{rows} after {after:?}");
            let Some(until) = &end else { continue };
            let found = admin.dead_letters(&all, after, Some(until), 100).await.expect("dead letters");
            let found: Vec<DeadLetterCursor> = found.iter().map(|letter| letter.cursor()).collect();
            assert_eq!(found, positions[skipped..skipped + rows], "{rows} after {after:?}");
            let of_key = admin.dead_letters(&key, after, Some(until), 100).await.expect("dead letters");
            let of_key: Vec<DeadLetterCursor> = of_key.iter().map(|letter| letter.cursor()).collect();
            assert!(of_key.iter().all(|cursor| found.contains(cursor)) && of_key.len() <= found.len());
        }
    }
    let end = admin.dead_letter_scan_end(&all.topic(TOPIC), None, 3).await.expect("the end");
    assert_eq!(end.as_ref(), positions.get(if TOPIC < "reminders" { 5 } else { 8 }), "of the topic alone");
}

/// Each condition of a filter is applied, and a dead letter must meet all of them.
pub async fn dead_letters_are_found_by_filter(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let refused = insert_dead_letter(under_test, TOPIC, "1", "refused: too large").await.message_id;
    let spent = insert_dead_letter(under_test, TOPIC, "2", "attempts: refused: no").await.message_id;
    let other = insert_dead_letter(under_test, "invoices", "1", "refused").await.message_id;
    let filter = DeadLetterFilter::new;
    assert_eq!(found(admin, filter().topic("invoices")).await, [other]);
    assert_eq!(found(admin, filter().topic(TOPIC).key("2")).await, [spent]);
    assert_eq!(found(admin, filter().key("1")).await, [other, refused]);
    assert_eq!(found(admin, filter().reason("refused")).await, [other, refused]);
    assert_eq!(found(admin, filter().topic(TOPIC).reason("refused").kind("order.placed")).await, [refused]);
    assert_eq!(found(admin, filter().kind("order.paid")).await, []);
    assert_eq!(found(admin, filter().reason("re%")).await, [], "a word, not a pattern");
    assert_eq!(found(admin, filter().class("record")).await, [], "no failure is noted");
    let now = admin.now().await.expect("now") + Duration::from_secs(1);
    assert_eq!(found(admin, filter().topic(TOPIC).dead_before(now)).await.len(), 2);
    assert_eq!(found(admin, filter().dead_from(now)).await, []);
    assert_eq!(found(admin, filter().dead_before(SystemTime::UNIX_EPOCH)).await, []);
    let first = admin.find_dead_letter(other).await.expect("dead letter").expect("it is dead").dead_at;
    assert_eq!(found(admin, filter().topic("invoices").dead_from(first)).await, [other], "from that moment on");
    assert_eq!(found(admin, filter().topic("invoices").dead_before(first)).await, [], "and not that moment");
}

/// Counted by topic and reason word.
pub async fn dead_letters_are_counted(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    assert_eq!(admin.count_dead_letters().await.expect("count"), []);
    for reason in ["refused: too large", "attempts: timed out", "refused: corrupt"] {
        insert_dead_letter(under_test, TOPIC, "1", reason).await;
    }
    insert_dead_letter(under_test, "invoices", "1", "poisoned").await;
    let count = |topic: &str, reason: &str, count| DeadLetterCount {
        topic: topic.into(),
        reason: reason.into(),
        class: None,
        count,
    };
    let expected = [count("invoices", "poisoned", 1), count(TOPIC, "attempts", 1), count(TOPIC, "refused", 2)];
    assert_eq!(admin.count_dead_letters().await.expect("count"), expected);
}

/// Counted by topic, reason word and class of the last failure, among a bounded number of dead letters.
pub async fn dead_letters_are_grouped(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    for reason in ["refused: too large", "attempts: timed out", "refused: corrupt"] {
        let held = insert_held(under_test, 1).await[0];
        under_test.store().fail(&[failed(held, "no leader")]).await.expect("fail");
        dead_letter(under_test, held.key, held.epoch + 1, reason).await;
    }
    insert_dead_letter(under_test, "invoices", "1", "poisoned").await;
    let group = |topic: &str, reason: &str, class: Option<&str>, count, read| DeadLetterGroup {
        matching: DeadLetterCount {
            topic: topic.into(),
            reason: reason.into(),
            class: class.map(str::to_owned),
            count,
        },
        read,
    };
    let poisoned = group("invoices", "poisoned", None, 1, 1);
    let attempts = |count| group(TOPIC, "attempts", Some("temporary"), count, 1);
    let refused = |count| group(TOPIC, "refused", Some("temporary"), count, 2);
    let groups =
        async |filter: DeadLetterFilter, rows_max| admin.group_dead_letters(&filter, rows_max).await.expect("groups");
    let filter = DeadLetterFilter::new;
    assert_eq!(groups(filter(), 10).await, [poisoned.clone(), attempts(1), refused(2)]);
    assert_eq!(groups(filter().topic(TOPIC).reason("refused"), 10).await, [attempts(0), refused(2)]);
    assert_eq!(
        groups(filter().topic(TOPIC).class("temporary").key("no such key"), 10).await,
        [attempts(0), refused(0)]
    );
    assert_eq!(groups(filter(), 1).await, [poisoned], "the first of them");
    let topics = found(admin, filter().class("temporary")).await;
    assert_eq!(topics.len(), 3, "a filter finds what is counted");
}

/// A redriven message is as it was, due now, with nothing spent, under the next epoch. Messages that are not dead letters are left alone.
pub async fn redrive_requeues_dead_letters(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let held = insert_held(under_test, 1).await[0];
    under_test.store().fail(&[failed(held, "no leader")]).await.expect("fail");
    dead_letter(under_test, held.key, held.epoch + 1, "attempts").await;
    let kept = insert_dead_letter(under_test, TOPIC, "1", "attempts").await;
    let live = insert(under_test, leased(LEASE)).await;
    let requested = [held.key.message_id, live.message_id, MessageId::new()].map(|message| requeue(message, None));
    let (window, moved) = WriteWindow::of(under_test, admin.redrive(&requested, None)).await;
    let moved: Vec<MessageId> = moved.expect("redrive").iter().map(|row| row.message_id).collect();
    assert_eq!(moved, [held.key.message_id]);
    assert_eq!(dead_letter_keys(under_test).await, [kept]);
    let row = live_row(under_test, held.key).await;
    window.assert_due_after(&row, Duration::ZERO);
    assert_eq!((row.epoch, row.attempts, row.failures, row.errors.len()), (held.epoch + 2, 0, 0, 1));
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(keys(&claim.rows), [held.key]);
    let sent = decoded(claim.rows.into_iter().next().expect("a row")).envelope;
    assert_eq!((sent.key.as_deref(), sent.payload), (Some("42"), message(TOPIC).payload));
    claim.handle.close(&[held.key], &[]).await.expect("close");
    assert_eq!(admin.redrive(&requested, None).await.expect("redrive"), [], "it is no longer dead");
    assert_eq!(admin.redrive(&[], None).await.expect("redrive"), []);
}

/// In a lane, redriven messages go after everything that is there, in the order in which they were enqueued.
pub async fn redrive_goes_to_the_tail_of_a_lane(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let mut rows = Vec::new();
    for _ in 0..3 {
        rows.push(insert(under_test, InsertOptions::default().in_lane(3)).await);
    }
    let [first, second, stays] = rows[..] else { unreachable!("three rows") };
    for row in [second, first] {
        dead_letter(under_test, row, 0, "refused").await;
    }
    let letter = admin.find_dead_letter(first.message_id).await.expect("dead letter").expect("it is dead");
    assert_eq!(letter.lane, Some(3));
    let requeues = [second, first, second].map(|row| requeue(row.message_id, Some(3)));
    let moved = admin.redrive(&requeues, None).await.expect("redrive");
    assert_eq!(moved.len(), 2, "a duplicate is requeued once");
    let order: Vec<MessageId> = under_test.live_rows().await.iter().map(|row| row.key.message_id).collect();
    assert_eq!(order, [stays.message_id, first.message_id, second.message_id]);
    let in_1970 = under_test.live_rows().await.iter().all(|row| row.due_at == SystemTime::UNIX_EPOCH);
    assert!(in_1970, "only their owner takes them");
}

/// A redrive says where its messages are, in a lane or not: until they are settled or dead-lettered again.
pub async fn redriven_messages_are_found_where_redrive_says(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let Some(admin) = store.admin() else { return };
    let mut dead = Vec::new();
    for _ in 0..3 {
        dead.push(insert_dead_letter(under_test, TOPIC, "1", "refused").await.message_id);
    }
    let requeues = [requeue(dead[0], None), requeue(dead[1], Some(3)), requeue(dead[2], Some(5))];
    let moved = admin.redrive(&requeues, None).await.expect("redrive");
    let mut named: Vec<MessageId> = moved.iter().map(|row| row.message_id).collect();
    named.sort_unstable();
    assert_eq!(named, dead);
    let remaining = sorted(store.remaining(&moved).await.expect("remaining"));
    assert_eq!(remaining, live_keys(under_test).await);
    let again = live_row(under_test, remaining[0]).await;
    dead_letter(under_test, remaining[0], again.epoch, "refused").await;
    store.settle(&remaining[1..2], Locking::Skip).await.expect("settle");
    assert_eq!(store.remaining(&moved).await.expect("remaining"), remaining[2..]);
}
