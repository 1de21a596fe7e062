use std::time::Duration;

use crate::message::{Headers, MessageId};
use crate::store::{
    AdminStore, Held, InsertOptions, LiveConditions, LiveMessage, LiveRange, LiveScan, LiveState, RowKey,
};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn scan(range: LiveRange) -> LiveScan {
    LiveScan { topic: TOPIC.into(), range, after: None, until: None }
}

async fn found(admin: &dyn AdminStore, range: LiveRange, conditions: &LiveConditions) -> Vec<RowKey> {
    let found = admin.live_messages(&scan(range), conditions, 100).await.expect("live messages");
    found.iter().map(key).collect()
}

fn key(message: &LiveMessage) -> RowKey {
    RowKey { id: message.id, message_id: message.message_id }
}

fn in_state(state: LiveState) -> LiveConditions {
    LiveConditions { state: Some(state), ..LiveConditions::default() }
}

/// The row ids of a range, read in pages of this size.
async fn paged(admin: &dyn AdminStore, range: LiveRange, rows_max: usize) -> Vec<i64> {
    let (mut ids, mut scan) = (Vec::new(), scan(range));
    loop {
        let page = admin.live_messages(&scan, &LiveConditions::default(), rows_max).await.expect("live messages");
        assert!(page.len() <= rows_max);
        let Some(last) = page.last() else { return ids };
        scan.after = Some(last.position);
        ids.extend(page.iter().map(|message| message.id));
        assert!(ids.len() < 1_000, "a row is on two pages");
    }
}

/// A live message has everything that its row has.
pub async fn live_message_has_the_whole_message(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let began_at = under_test.now().await;
    let mut envelope = message(TOPIC);
    envelope.headers = [("trace", "a"), ("trace", "b")].into_iter().collect::<Headers>();
    let row = under_test.insert(&envelope, DUE).await;
    let mut failure = failed(Held { key: row, epoch: 0 }, "no leader");
    failure.wait = HOUR;
    let (window, noted) = WriteWindow::of(under_test, under_test.store().fail(&[failure])).await;
    assert_eq!(noted.expect("fail"), [row]);

    let live = admin.find_live(row.message_id).await.expect("a live message").expect("it is live");
    assert_eq!((live.id, live.message_id, &*live.topic, live.lane), (row.id, row.message_id, TOPIC, None));
    assert_eq!((live.key.as_deref(), &*live.kind), (Some("42"), "order.placed"));
    assert_eq!(live.headers().expect("headers"), envelope.headers);
    assert_eq!(live.payload, envelope.payload);
    assert_eq!((live.attempts, live.failures, live.state), (1, 1, LiveState::Retrying));
    let error = live.last_error().expect("it has failed");
    assert_eq!((&*error.class, &*error.error), ("temporary", "no leader"));
    window.assert_at(live.due_at.expect("outside of lanes") - HOUR);
    assert_eq!((live.deliver_at, live.leased_until, live.owner), (None, None, None));
    assert!(began_at <= live.created_at && live.created_at <= under_test.now().await, "{:?}", live.created_at);
    assert_eq!(admin.find_live_row(row).await.expect("a live message"), Some(live));
    let other = RowKey { message_id: MessageId::new(), ..row };
    assert_eq!(admin.find_live_row(other).await.expect("a live message"), None, "the row of another message");
    assert_eq!(found(admin, LiveRange::Unordered, &LiveConditions::default()).await, [row]);
    assert_eq!(admin.find_live(MessageId::new()).await.expect("a live message"), None);
    let dead = insert_dead_letter(under_test, TOPIC, "1", "refused").await;
    assert_eq!(admin.find_live(dead.message_id).await.expect("a live message"), None, "it is dead");
}

/// Each row has one state, and the condition for a state finds exactly these rows.
pub async fn live_messages_have_their_states(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let [held, failing] = insert_held(under_test, 2).await[..] else { panic!("two rows") };
    under_test.store().fail(&[failed(failing, "not now")]).await.expect("fail");
    let born = insert(under_test, leased(LEASE)).await;
    let delayed = insert(under_test, InsertOptions::default().deliver_after(HOUR)).await;
    let due = insert(under_test, DUE).await;
    let ordered = insert(under_test, InsertOptions::default().in_lane(3)).await;
    for (key, state) in [
        (held.key, LiveState::Leased),
        (born, LiveState::Leased),
        (failing.key, LiveState::Retrying),
        (delayed, LiveState::Delayed),
        (due, LiveState::Due),
        (ordered, LiveState::InLane),
    ] {
        let live = admin.find_live(key.message_id).await.expect("a live message").expect("it is live");
        assert_eq!(live.state, state);
        assert_eq!(live.leased_until, live.due_at.filter(|_| state == LiveState::Leased));
        assert_eq!(live.deliver_at.is_some(), state == LiveState::Delayed);
        assert_eq!(live.due_at.is_none(), state == LiveState::InLane);
    }
    let later = LiveRange::Later;
    assert_eq!(sorted(found(admin, later, &in_state(LiveState::Leased)).await), [held.key, born]);
    assert_eq!(found(admin, later, &in_state(LiveState::Retrying)).await, [failing.key]);
    assert_eq!(found(admin, later, &in_state(LiveState::Delayed)).await, [delayed]);
    assert_eq!(found(admin, LiveRange::Due, &LiveConditions::default()).await, [due]);
    assert_eq!(found(admin, LiveRange::Unordered, &LiveConditions::default()).await.len(), 5);
    assert_eq!(found(admin, LiveRange::Lane(3), &in_state(LiveState::InLane)).await, [ordered]);
    under_test.advance(HOUR * 2).await;
    assert_eq!(found(admin, LiveRange::Due, &LiveConditions::default()).await.len(), 5);
    assert_eq!(found(admin, later, &LiveConditions::default()).await, []);
}

/// Pages join without gaps or duplicates, also where rows became due at the same instant.
pub async fn live_messages_come_in_pages(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let mut rows = insert_due(under_test, 7).await;
    under_test.make_due_together().await;
    for delay in [2, 1] {
        rows.push(insert(under_test, InsertOptions::default().deliver_after(HOUR * delay)).await);
    }
    rows.swap(7, 8);
    under_test.insert(&message("invoices"), DUE).await;
    let expected: Vec<i64> = rows.iter().map(|row| row.id).collect();
    for rows_max in [1, 2, 3, 7, 100] {
        assert_eq!(paged(admin, LiveRange::Unordered, rows_max).await, expected, "by due_at and row id");
        assert_eq!(paged(admin, LiveRange::Due, rows_max).await, expected[..7]);
        assert_eq!(paged(admin, LiveRange::Later, rows_max).await, expected[7..]);
    }
}

/// A scan ends at the row that was asked for, and is told how many rows it has.
pub async fn live_scans_are_bounded(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    assert_eq!(admin.live_scan_end(&scan(LiveRange::Due), 3).await.expect("the end"), None);
    let rows = insert_due(under_test, 7).await;
    under_test.make_due_together().await;
    let mut seen = Vec::new();
    let mut scan = scan(LiveRange::Due);
    for expected in [3, 3, 1] {
        let end = admin.live_scan_end(&scan, 3).await.expect("the end").expect("there are rows");
        assert_eq!(end.rows, expected);
        scan.until = Some(end.last);
        let found = admin.live_messages(&scan, &LiveConditions::default(), 100).await.expect("live messages");
        assert_eq!(found.last().map(|last| last.position), Some(end.last));
        seen.extend(found.iter().map(key));
        (scan.after, scan.until) = (Some(end.last), None);
    }
    assert_eq!(seen, rows);
    assert_eq!(admin.live_scan_end(&scan, 3).await.expect("the end"), None, "all were read");
}

/// Key, kind and header are compared as a whole, and a message must meet all conditions.
pub async fn live_messages_are_found_by_condition(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let mut envelope = message(TOPIC);
    envelope.headers = [("tenant", "seven"), ("note", "a \"b\" \\ \u{e9}")].into_iter().collect::<Headers>();
    let with_headers = under_test.insert(&envelope, DUE).await;
    let mut envelope = message(TOPIC);
    (envelope.key, envelope.kind) = (Some("x%".to_owned()), "order.paid".to_owned());
    let other = under_test.insert(&envelope, DUE).await;
    under_test.poison(insert(under_test, DUE).await).await;

    let none = LiveConditions::default;
    let key = |key: &str| LiveConditions { key: Some(key.into()), ..none() };
    let kind = |kind: &str| LiveConditions { kind: Some(kind.into()), ..none() };
    let header = |pair: &str| LiveConditions { header: Some(pair.into()), ..none() };
    let due = LiveRange::Due;
    assert_eq!(found(admin, due, &key("x%")).await, [other]);
    assert_eq!(found(admin, due, &key("%")).await, [], "a key, not a pattern");
    assert_eq!(found(admin, due, &key("X%")).await, [], "not another case");
    assert_eq!(found(admin, due, &kind("order.paid")).await, [other]);
    assert_eq!(found(admin, due, &kind("order")).await, []);
    assert_eq!(found(admin, due, &header(r#"["tenant","seven"]"#)).await, [with_headers]);
    assert_eq!(found(admin, due, &header(r#"["note","a \"b\" \\ é"]"#)).await, [with_headers]);
    assert_eq!(found(admin, due, &header(r#"["tenant","_even"]"#)).await, [], "a text, not a pattern");
    assert_eq!(found(admin, due, &header(r#"["Tenant","seven"]"#)).await, [], "not another case");
    let both = LiveConditions { header: Some(r#"["tenant","seven"]"#.into()), ..key("x%") };
    assert_eq!(found(admin, due, &both).await, []);
}

/// Counted by state. Each count says whether its range has more rows than were read.
pub async fn live_messages_are_counted(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let [_, failing] = insert_held(under_test, 2).await[..] else { panic!("two rows") };
    under_test.store().fail(&[failed(failing, "not now")]).await.expect("fail");
    insert(under_test, InsertOptions::default().deliver_after(HOUR)).await;
    insert_due(under_test, 2).await;
    insert(under_test, InsertOptions::default().in_lane(0)).await;
    insert(under_test, InsertOptions::default().in_lane(3)).await;
    under_test.insert(&message("invoices"), DUE).await;
    let counted = admin.count_live(&TOPIC.into(), 10).await.expect("count");
    let all = [counted.due, counted.leased, counted.delayed, counted.retrying, counted.in_lanes];
    assert_eq!(all.map(|count| (count.count, count.more)), [2, 1, 1, 1, 2].map(|count| (count, false)));
    let counted = admin.count_live(&TOPIC.into(), 1).await.expect("count");
    assert_eq!((counted.due.to_string(), counted.in_lanes.to_string()), ("at least 1".into(), "at least 1".into()));
    assert!(counted.leased.more && counted.delayed.more && counted.retrying.more);
    let nothing = admin.count_live(&"payments".into(), 10).await.expect("count");
    assert_eq!((nothing.due.to_string(), nothing.retrying.to_string()), ("0".into(), "0".into()));
}

/// Counted by when they are due, up to a bound.
pub async fn live_messages_are_counted_by_time(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    insert_due(under_test, 2).await;
    for hours in [1, 1, 3] {
        insert(under_test, InsertOptions::default().deliver_after(hours * HOUR)).await;
    }
    insert(under_test, InsertOptions::default().in_lane(0)).await;
    under_test.insert(&message("invoices"), DUE).await;
    let (topic, now) = (TOPIC.into(), under_test.now().await + HOUR / 60);
    let count = async |from, before, count_max| admin.count_due(&topic, from, before, count_max).await.expect("count");
    assert_eq!(count(now - HOUR, now, 10).await, 2);
    assert_eq!(count(now, now + 2 * HOUR, 10).await, 2);
    assert_eq!(count(now + 2 * HOUR, now + 100 * HOUR, 10).await, 1);
    assert_eq!(count(now - HOUR, now + 100 * HOUR, 3).await, 3, "it stops there");
    assert_eq!(count(now + 100 * HOUR, now + 200 * HOUR, 3).await, 0);
}
