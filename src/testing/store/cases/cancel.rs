use std::time::Duration;

use crate::message::MessageId;
use crate::store::{CancelOutcome, InsertOptions, RowKey};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

async fn insert_delayed(under_test: &dyn StoreUnderTest) -> RowKey {
    insert(under_test, InsertOptions::default().deliver_after(HOUR)).await
}

/// `None` if the store has no admin operations.
async fn cancel(under_test: &dyn StoreUnderTest, message: MessageId) -> Option<CancelOutcome> {
    let admin = under_test.store().admin()?;
    Some(admin.cancel_delayed(message, None).await.expect("cancel"))
}

fn cancelled() -> CancelOutcome {
    CancelOutcome::Cancelled { topic: TOPIC.into() }
}

/// A delayed message is cancelled by its id, and no other with it. So is one that nobody could send in time.
pub async fn cancel_removes_a_delayed_row(under_test: &dyn StoreUnderTest) {
    let (gone, kept) = (insert_delayed(under_test).await, insert_delayed(under_test).await);
    let Some(outcome) = cancel(under_test, gone.message_id).await else { return };
    assert_eq!(outcome, cancelled());
    assert_eq!(live_keys(under_test).await, [kept]);
    assert_eq!(cancel(under_test, gone.message_id).await, Some(CancelOutcome::NotFound));
    under_test.advance(HOUR + LEASE).await;
    assert_eq!(cancel(under_test, kept.message_id).await, Some(cancelled()));
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, []);
}

/// Messages that were not delayed cannot be cancelled, and are left alone.
pub async fn cancel_finds_only_delayed_rows(under_test: &dyn StoreUnderTest) {
    let plain = insert(under_test, leased(LEASE)).await;
    for message in [plain.message_id, MessageId::new()] {
        let Some(outcome) = cancel(under_test, message).await else { return };
        assert_eq!(outcome, CancelOutcome::NotFound);
    }
    assert_eq!(live_keys(under_test).await, [plain]);
}

/// Of a claim and a cancel one wins: a claimed row is not cancelled, neither while the claim is open nor while the row is held or
/// has failed.
pub async fn cancel_leaves_claimed_rows(under_test: &dyn StoreUnderTest) {
    let key = insert_delayed(under_test).await;
    under_test.advance(HOUR).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(keys(&claim.rows), [key]);
    let Some(outcome) = cancel(under_test, key.message_id).await else { return };
    assert_eq!(outcome, CancelOutcome::AlreadyClaimed, "the claim is open");
    let closed = claim.handle.close(&[], &[key]).await.expect("close");
    assert_eq!(cancel(under_test, key.message_id).await, Some(CancelOutcome::AlreadyClaimed), "the row is held");
    under_test.store().fail(&[failed(closed.held[0], "timed out")]).await.expect("fail");
    assert_eq!(
        cancel(under_test, key.message_id).await,
        Some(CancelOutcome::AlreadyClaimed),
        "it may have been stored"
    );
    assert_eq!(live_keys(under_test).await, [key]);
}
