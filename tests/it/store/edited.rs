//! Rows that somebody edited by hand. Whatever a column accepts, such a row is claimed, fails and is dead-lettered like others, and
//! blocks no other.

use std::time::Duration;

use diesel_outbox::internals::limits;
use diesel_outbox::internals::store::{ClaimSpec, Failed, Held, Loaded, NewDeadLetter, PollSpec, RowKey, RowRef};
use diesel_outbox::internals::store_suite::StoreUnderTest;

use super::{insert, spec};

/// Edits that every database takes.
const EDITS: [&str; 11] = [
    "errors = '{}'",
    "errors = '\"x\"'",
    "errors = 'null'",
    "errors = '1'",
    // More entries than an array has room for.
    r#"errors = '{"1":0, "2":0, "3":0, "4":0, "5":0, "6":0, "7":0, "8":0, "9":0, "10":0, "11":0, "12":0}'"#,
    "epoch = 2147483647",
    "epoch = -7",
    "attempts = 2147483647, failures = 2147483647",
    "attempts = -2147483648, failures = -2147483648",
    "headers = '{}'",
    "headers = ''",
];

/// Tries those edits and the database's own; `set` gets `column = value WHERE id = 7`.
pub(super) async fn assert_edits_are_isolated(test: &dyn StoreUnderTest, own: &[&str], set: impl Fn(&str)) {
    for edit in EDITS.iter().chain(own) {
        assert_edit_is_isolated(test, edit, &set).await;
    }
}

/// Edits a row next to an intact one.
async fn assert_edit_is_isolated(test: &dyn StoreUnderTest, edit: &str, set: &impl Fn(&str)) {
    let store = test.store();
    let (odd, sound) = (insert(test).await, insert(test).await);
    set(&format!("{edit} WHERE id = {}", odd.id));
    let refs = [odd, sound].map(|key| RowRef { id: Some(key.id), message_id: key.message_id });
    let confirmed = store.confirm(&refs).await.unwrap_or_else(|error| panic!("confirm, {edit}: {error}"));
    assert!(confirmed.iter().any(|confirmed| confirmed.row.key() == sound), "confirm, {edit}");

    let poll = store
        .poll(&PollSpec::everything(["orders".into()]))
        .await
        .unwrap_or_else(|error| panic!("poll, {edit}: {error}"));
    assert!(poll.due.len() == 1 && poll.due[0].due_in.is_zero(), "poll, {edit}: {poll:?}");
    let backlog = store.backlog(100).await.unwrap_or_else(|error| panic!("backlog, {edit}: {error}"));
    assert!(backlog[0].due == 2 && backlog[0].overdue_by < limits::DELAY_MAX, "backlog, {edit}: {backlog:?}");

    let claim = store.claim(&spec()).await.unwrap_or_else(|error| panic!("claim, {edit}: {error}"));
    let claimed: Vec<RowKey> = claim.rows.iter().map(Loaded::key).collect();
    assert!(claimed.contains(&odd) && claimed.contains(&sound), "claim, {edit}: {claimed:?}");
    let again = store.claim(&ClaimSpec { after: claim.watermark, ..spec() }).await;
    again.unwrap_or_else(|error| panic!("claim from the watermark, {edit}: {error}"));
    let closed = claim.handle.close(&[], &[odd, sound]).await.unwrap_or_else(|error| panic!("close, {edit}: {error}"));
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

    let dead =
        |held: &Held| NewDeadLetter { held: Held { epoch: held.epoch + 1, ..*held }, reason: "attempts".to_owned() };
    let dead: Vec<NewDeadLetter> = closed.held.iter().map(dead).collect();
    let dead_lettered = store.dead_letter(&dead).await.unwrap_or_else(|error| panic!("dead_letter, {edit}: {error}"));
    assert_eq!(dead_lettered.len(), 2, "dead_letter, {edit}");
}
