//! The suite silently skips what a store does not support, so each store states here what that is.

use std::time::SystemTime;

use diesel_outbox::internals::store::{InsertOptions, LaneScan};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::{Envelope, MessageId};

/// What the cases look for and do not find. Writes a row to check with.
pub(super) async fn unsupported(under_test: &dyn StoreUnderTest) -> Vec<&'static str> {
    let store = under_test.store();
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    let row = under_test.insert(&envelope, InsertOptions::default().in_lane(0)).await;
    let scan = LaneScan { lane: 0, after: 0, rows_max: 1 };
    let entries = store.lanes().lane_entries(&envelope.topic, &[scan]).await.expect("entries");
    let horizon = entries.first().expect("the row").horizon;
    let lock = under_test.lock(row).await;
    let parts = [
        ("row locks", lock.is_some()),
        ("horizons", horizon.is_some()),
        ("half messages", store.halves().is_some()),
        ("admin", store.admin().is_some()),
    ];
    if let Some(lock) = lock {
        lock.roll_back().await;
    }
    parts.into_iter().filter(|(_, is_there)| !is_there).map(|(part, _)| part).collect()
}
