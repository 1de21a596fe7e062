use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{ERROR_TEXT_BYTES_MAX, ERRORS_KEPT_MAX, RETRY_WAIT_MAX};
use crate::store::{Failed, Held, RowKey, StoredError};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// A failed row is due after its wait, under the next epoch, with the failure counted and stored.
pub async fn fail_counts_and_backs_off(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let failure = failed(held, "leader not available");
    let (window, noted) = WriteWindow::of(under_test, under_test.store().fail(std::slice::from_ref(&failure))).await;
    assert_eq!(noted.expect("fail"), [held.key]);
    let row = live_row(under_test, held.key).await;
    window.assert_due_after(&row, failure.wait);
    assert_eq!((row.epoch, row.attempts, row.failures), (held.epoch + 1, 1, 1));
    let kept = StoredError { class: "temporary".to_owned(), error: "leader not available".to_owned() };
    assert_eq!(row.errors, [kept]);

    assert!(claim_and_close(under_test, &spec(TOPIC)).await.is_empty(), "claimed in its back-off");
    under_test.advance(failure.wait).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let row = claim.rows.into_iter().map(decoded).next().expect("the row, after its wait");
    assert_eq!((row.failures, row.envelope.attempt), (1, 2));
    claim.handle.close(&[], &[]).await.expect("close");
}

/// A failure that says nothing about the record spends no attempt.
pub async fn fail_spends_an_attempt_only_if_requested(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 2).await;
    let spent = failed(held[0], "too large");
    let unspent = Failed { spends_attempt: false, ..failed(held[1], "timed out") };
    let noted = under_test.store().fail(&[spent, unspent]).await.expect("fail");
    assert_eq!(noted.len(), 2);
    let counts = async |key| {
        let row = live_row(under_test, key).await;
        (row.attempts, row.failures)
    };
    assert_eq!(counts(held[0].key).await, (1, 1));
    assert_eq!(counts(held[1].key).await, (0, 1));
}

/// Each row of a batch gets its own wait and its own error.
pub async fn fail_records_each_row_separately(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 2).await;
    let first = failed(held[0], "first");
    let second = Failed { wait: first.wait * 100, ..failed(held[1], "second") };
    let batch = [first.clone(), second.clone()];
    let (window, noted) = WriteWindow::of(under_test, under_test.store().fail(&batch)).await;
    assert_eq!(sorted(noted.expect("fail")), [first.held.key, second.held.key]);
    for failure in batch {
        let row = live_row(under_test, failure.held.key).await;
        window.assert_due_after(&row, failure.wait);
        assert_eq!(row.errors[0].error, failure.error);
    }
}

/// A wait too long for the clock counts as the longest possible, and fails no batch.
pub async fn fail_bounds_the_wait(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 3).await;
    let for_ever = [Duration::MAX, Duration::from_secs(u64::MAX / 1_000_000)];
    let waits = [for_ever[0], for_ever[1], Duration::from_secs(10)];
    let batch: Vec<Failed> =
        held.iter().zip(waits).map(|(held, wait)| Failed { wait, ..failed(*held, "timed out") }).collect();
    let (window, noted) = WriteWindow::of(under_test, under_test.store().fail(&batch)).await;
    assert_eq!(noted.expect("one long wait must not fail the batch").len(), 3);
    for (held, wait) in held.iter().zip(waits) {
        window.assert_due_after(&live_row(under_test, held.key).await, wait.min(RETRY_WAIT_MAX));
    }
}

/// Only the last errors are stored, oldest first.
pub async fn fail_keeps_the_last_errors(under_test: &dyn StoreUnderTest) {
    let mut held = insert_held(under_test, 1).await[0];
    for failure in 0..ERRORS_KEPT_MAX + 3 {
        let noted = under_test.store().fail(&[failed(held, failure.to_string())]).await.expect("fail");
        assert_eq!(noted, [held.key]);
        held.epoch += 1;
    }
    let row = live_row(under_test, held.key).await;
    let kept: Vec<String> = row.errors.into_iter().map(|kept| kept.error).collect();
    let expected: Vec<String> = (3..ERRORS_KEPT_MAX + 3).map(|failure| failure.to_string()).collect();
    assert_eq!(kept, expected);
}

/// An error may be any foreign text: it is cut, cleaned of U+0000, and otherwise stored as it is.
pub async fn fail_keeps_any_text(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 3).await;
    let odd = "\"quoted\" 'and' \\ back\u{1}slashed, \u{1F4E6} 错误\n";
    let long = "é".repeat(ERROR_TEXT_BYTES_MAX);
    let failures = [failed(held[0], "nul \0 inside"), failed(held[1], odd), failed(held[2], long.clone())];
    let noted = under_test.store().fail(&failures).await.expect("one bad text must not fail the batch");
    assert_eq!(noted.len(), 3);
    let text = async |held: Held| live_row(under_test, held.key).await.errors[0].error.clone();
    assert_eq!(text(held[0]).await, "nul  inside");
    assert_eq!(text(held[1]).await, odd);
    let cut = text(held[2]).await;
    assert!(long.starts_with(&cut) && cut.len() <= ERROR_TEXT_BYTES_MAX && cut.len() > ERROR_TEXT_BYTES_MAX / 2);
}

/// A row whose last failure was a refusal is suspect, until it fails otherwise.
pub async fn fail_makes_a_suspect_by_a_refusal(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 3).await;
    let refused = |held| Failed { wait: Duration::ZERO, class: "record_refused", ..failed(held, "too large") };
    let timed_out = |held: Held| Failed { wait: Duration::ZERO, ..failed(held, "timed out") };
    let next = |held: Held| Held { epoch: held.epoch + 1, ..held };
    let first = [timed_out(held[0]), refused(held[1]), refused(held[2])];
    assert_eq!(under_test.store().fail(&first).await.expect("fail").len(), 3);
    let second = [refused(next(held[0])), timed_out(next(held[1]))];
    assert_eq!(under_test.store().fail(&second).await.expect("fail").len(), 2);
    let fresh = insert(under_test, DUE).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let suspects: BTreeMap<RowKey, bool> =
        claim.rows.into_iter().map(decoded).map(|row| (row.key, row.is_suspect)).collect();
    claim.handle.close(&[], &[]).await.expect("close");
    let expected = [(held[0].key, true), (held[1].key, false), (held[2].key, true), (fresh, false)];
    assert_eq!(suspects, BTreeMap::from(expected));
}

/// A late failure, under an outdated epoch, changes nothing.
pub async fn fail_requires_its_epoch(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let before = under_test.live_rows().await;
    let late = [failed(stale(held), "late"), failed(Held { key: other_message(held.key), ..held }, "other")];
    assert_eq!(under_test.store().fail(&late).await.expect("fail"), []);
    assert_eq!(under_test.live_rows().await, before);
}
