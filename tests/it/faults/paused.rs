//! A process that is stopped past its terms and goes on.

use super::audit::audit;
use super::child::Script;
use super::shop::Shop;

/// Stopped between confirm and send it must not send what another relay has taken meanwhile.
async fn stopped_at(step: &str, backlog: i32, orders: i32) {
    let Some(shop) = Shop::open().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let go_on = folder.path().join("go on");
    let stops_until = Some(go_on.clone());
    let script = Script { crash_at: Some(step.to_owned()), stops_until, backlog, orders, ..Script::new(&shop) };
    let mut process = script.spawn();
    process.stopped().await;
    let relay = shop.start_relay(&shop.outbox()).await;
    shop.drained().await;
    process.go_on(&go_on);
    assert!(process.ended().await.success(), "it goes on as if nothing had been");
    shop.drained().await;
    drop(relay);
    let audit = audit(&shop).await;
    assert_eq!(audit.delivered, audit.committed);
    assert_eq!(audit.doubled, 0, "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_confirm_it_sends_nothing_late() {
    stopped_at("relay::confirmed", 0, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_claim_it_sends_nothing_late() {
    stopped_at("sweeper::claimed", 50, 0).await;
}
