use crate::store::PollSpec;
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// A look tells which of its topics are paused, with rows or without, beside what is due.
pub async fn pause_is_seen_by_every_poll(under_test: &dyn StoreUnderTest) {
    let (store, asked) = (under_test.store(), topics(&[TOPIC, "invoices", "empty"]));
    let Some(admin) = store.admin() else { return };
    insert(under_test, DUE).await;
    assert_eq!(store.poll(&PollSpec::everything(asked.clone())).await.expect("poll").paused, topics(&[]));
    for topic in topics(&[TOPIC, "empty", "unasked"]) {
        admin.pause(&topic).await.expect("pause");
    }
    let look = store.poll(&PollSpec::everything(asked.clone())).await.expect("poll");
    let mut paused = look.paused;
    paused.sort();
    assert_eq!(paused, topics(&["empty", TOPIC]));
    assert_eq!(look.due.iter().map(|due| &*due.topic).collect::<Vec<_>>(), [TOPIC], "it is told all the same");
    assert!(admin.resume(&TOPIC.into()).await.expect("resume"));
    assert_eq!(store.poll(&PollSpec::everything(asked.clone())).await.expect("poll").paused, topics(&["empty"]));
}

/// A second pause changes nothing of the first, and a second end of it finds none.
pub async fn pause_begins_once_and_ends_once(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    assert_eq!(admin.paused().await.expect("paused"), []);
    let (window, ()) = WriteWindow::of(under_test, async { admin.pause(&TOPIC.into()).await.expect("pause") }).await;
    let first = admin.paused().await.expect("paused");
    assert_eq!(first.iter().map(|paused| &*paused.topic).collect::<Vec<_>>(), [TOPIC]);
    window.assert_at(first[0].since);
    admin.pause(&TOPIC.into()).await.expect("pause");
    assert_eq!(admin.paused().await.expect("paused"), first);
    admin.pause(&"invoices".into()).await.expect("pause");
    let names: Vec<_> = admin.paused().await.expect("paused").into_iter().map(|paused| paused.topic).collect();
    assert_eq!(names, topics(&["invoices", TOPIC]), "by name");
    assert!(admin.resume(&TOPIC.into()).await.expect("resume"));
    assert!(!admin.resume(&TOPIC.into()).await.expect("resume"), "it is paused no more");
    assert_eq!(admin.paused().await.expect("paused").len(), 1);
}

/// A pause writes nothing of the topic's rows, and neither does its end.
pub async fn paused_rows_stay_as_they_are(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    insert_held(under_test, 1).await;
    insert(under_test, DUE).await;
    let before = under_test.live_rows().await;
    admin.pause(&TOPIC.into()).await.expect("pause");
    assert_eq!(under_test.live_rows().await, before);
    admin.resume(&TOPIC.into()).await.expect("resume");
    assert_eq!(under_test.live_rows().await, before);
}
