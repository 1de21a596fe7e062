use crate::store::PollSpec;
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// A poll reports which of its topics are paused, with or without rows, in addition to what is due.
pub async fn pause_is_seen_by_every_poll(under_test: &dyn StoreUnderTest) {
    let (store, requested) = (under_test.store(), topics(&[TOPIC, "invoices", "empty"]));
    let Some(admin) = store.admin() else { return };
    insert(under_test, DUE).await;
    assert_eq!(store.poll(&PollSpec::everything(requested.clone())).await.expect("poll").paused, topics(&[]));
    for topic in topics(&[TOPIC, "empty", "unasked"]) {
        admin.pause(&topic, None).await.expect("pause");
    }
    let poll = store.poll(&PollSpec::everything(requested.clone())).await.expect("poll");
    let mut paused = poll.paused;
    paused.sort();
    assert_eq!(paused, topics(&["empty", TOPIC]));
    assert_eq!(poll.due.iter().map(|due| &*due.topic).collect::<Vec<_>>(), [TOPIC], "a paused topic is still reported");
    assert!(admin.resume(&TOPIC.into(), None).await.expect("resume"));
    assert_eq!(store.poll(&PollSpec::everything(requested.clone())).await.expect("poll").paused, topics(&["empty"]));
}

/// A second pause leaves the first as it is, and a second resume finds no pause.
pub async fn pause_begins_once_and_ends_once(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    assert_eq!(admin.paused().await.expect("paused"), []);
    let (window, ()) =
        WriteWindow::of(under_test, async { admin.pause(&TOPIC.into(), None).await.expect("pause") }).await;
    let first = admin.paused().await.expect("paused");
    assert_eq!(first.iter().map(|paused| &*paused.topic).collect::<Vec<_>>(), [TOPIC]);
    window.assert_at(first[0].since);
    admin.pause(&TOPIC.into(), None).await.expect("pause");
    assert_eq!(admin.paused().await.expect("paused"), first);
    admin.pause(&"invoices".into(), None).await.expect("pause");
    let names: Vec<_> = admin.paused().await.expect("paused").into_iter().map(|paused| paused.topic).collect();
    assert_eq!(names, topics(&["invoices", TOPIC]), "by name");
    assert!(admin.resume(&TOPIC.into(), None).await.expect("resume"));
    assert!(!admin.resume(&TOPIC.into(), None).await.expect("resume"), "it is no longer paused");
    assert_eq!(admin.paused().await.expect("paused").len(), 1);
}

/// Neither a pause nor a resume writes the topic's rows.
pub async fn paused_rows_stay_as_they_are(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    insert_held(under_test, 1).await;
    insert(under_test, DUE).await;
    let before = under_test.live_rows().await;
    admin.pause(&TOPIC.into(), None).await.expect("pause");
    assert_eq!(under_test.live_rows().await, before);
    admin.resume(&TOPIC.into(), None).await.expect("resume");
    assert_eq!(under_test.live_rows().await, before);
}
