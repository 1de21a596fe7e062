//! Rows that somebody edited by hand: whatever a column takes, such a row is claimed, fails and dies like others, and keeps no neighbour.

use std::time::{Duration, SystemTime};

use diesel_outbox::store::{ClaimSpec, Dead, Failed, Held, InsertOptions, Loaded, LookSpec, RowKey, RowRef};
use diesel_outbox::testing::store::StoreUnderTest;
use diesel_outbox::{Envelope, MessageId, limits};

/// Sets a row to the values of an edit (`column = value`), beside a sound one.
pub(super) async fn assert_keeps_no_neighbour(test: &dyn StoreUnderTest, edit: &str, set: impl Fn(RowKey, &str)) {
    let store = test.store();
    let (odd, sound) = (insert(test).await, insert(test).await);
    set(odd, edit);
    let refs = [odd, sound].map(|key| RowRef { id: Some(key.id), message_id: key.message_id });
    let confirmed = store.confirm(&refs).await.unwrap_or_else(|error| panic!("confirm, {edit}: {error}"));
    assert!(confirmed.iter().any(|confirmed| confirmed.row.key() == sound), "confirm, {edit}");

    let look = store
        .look(&LookSpec::everything(["orders".into()]))
        .await
        .unwrap_or_else(|error| panic!("look, {edit}: {error}"));
    assert!(look.due.len() == 1 && look.due[0].due_in.is_zero(), "look, {edit}: {look:?}");
    let backlog = store.backlog(100).await.unwrap_or_else(|error| panic!("backlog, {edit}: {error}"));
    assert!(backlog[0].due == 2 && backlog[0].overdue_by < limits::DELAY_MAX, "backlog, {edit}: {backlog:?}");

    let claim = store.claim(&spec()).await.unwrap_or_else(|error| panic!("claim, {edit}: {error}"));
    let claimed: Vec<RowKey> = claim.rows.iter().map(Loaded::key).collect();
    assert!(claimed.contains(&odd) && claimed.contains(&sound), "claim, {edit}: {claimed:?}");
    let again = store.claim(&ClaimSpec { after: claim.watermark, ..spec() }).await;
    again.unwrap_or_else(|error| panic!("claim behind the watermark, {edit}: {error}"));
    let closed = claim.batch.close(&[], &[odd, sound]).await.unwrap_or_else(|error| panic!("close, {edit}: {error}"));
    assert_eq!(closed.held.len(), 2, "close, {edit}");

    let (wait, class) = (Duration::from_secs(10), "temporary");
    let failed = |held: &Held| Failed { held: *held, wait, spends_attempt: true, class, error: "timed out".to_owned() };
    let failed: Vec<Failed> = closed.held.iter().map(failed).collect();
    let noted = store.fail(&failed).await.unwrap_or_else(|error| panic!("fail, {edit}: {error}"));
    assert_eq!(noted.len(), 2, "fail, {edit}");
    for row in test.live_rows().await {
        let kept = row.errors.last().map(|kept| &*kept.error);
        assert_eq!(kept, Some("timed out"), "fail, {edit}: {row:?}");
    }

    let dead = |held: &Held| Dead { held: Held { epoch: held.epoch + 1, ..*held }, reason: "attempts".to_owned() };
    let dead: Vec<Dead> = closed.held.iter().map(dead).collect();
    let buried = store.dead(&dead).await.unwrap_or_else(|error| panic!("dead, {edit}: {error}"));
    assert_eq!(buried.len(), 2, "dead, {edit}");
}

async fn insert(test: &dyn StoreUnderTest) -> RowKey {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    test.insert(&envelope, InsertOptions::default()).await
}

fn spec() -> ClaimSpec {
    ClaimSpec {
        topic: "orders".into(),
        after: None,
        rows_max: 1_000,
        bytes_max: 8 << 20,
        term_duration: Duration::from_secs(4),
        lease_duration: Duration::from_secs(30),
        watermark_slack_duration: Duration::from_secs(10),
        keep: None,
    }
}
