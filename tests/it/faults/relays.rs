//! Several relays, and relays that end under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::audit::audit;
use super::child::Script;
use super::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_on_one_table_make_no_duplicates() {
    let Some(shop) = Shop::open().await else { return };
    let script = Script { backlog: 500, orders: 500, ..Script::new(&shop) };
    let (mut one, mut two) = (script.spawn(), script.spawn());
    assert!(one.wait_for_exit().await.success());
    assert!(two.wait_for_exit().await.success());
    let audit = audit(&shop).await;
    assert_eq!(audit.delivered, audit.committed);
    assert!(audit.committed > 1_400, "{audit:?}");
    assert_eq!(audit.duplicates, 0, "no lease was missed and no lock lost: {audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_under_load_loses_and_duplicates_nothing() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let done = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let (shop, outbox, done) = (shop.clone(), outbox.clone(), Arc::clone(&done));
        async move {
            let mut placed = 0;
            while !done.load(Ordering::Acquire) {
                shop.place_all(&outbox, placed..placed + 10).await;
                placed += 10;
            }
        }
    });
    for _ in 0..4 {
        let relay = shop.start_relay(&outbox).await;
        let before = shop.committed().await.len();
        while shop.committed().await.len() < before + 100 {
            tokio::task::yield_now().await;
        }
        let report = relay.shutdown(Duration::from_secs(20)).await;
        assert!(report.is_clean(), "{report:?}");
    }
    done.store(true, Ordering::Release);
    load.await.unwrap();
    let relay = shop.start_relay(&outbox).await;
    shop.wait_until_drained().await;
    drop(relay);
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.duplicates), (audit.committed, 0), "{audit:?}");
}
