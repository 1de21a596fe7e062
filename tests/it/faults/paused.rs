//! A process that is stopped past its leases and goes on.

use super::audit::audit;
use super::child::Script;
use super::shop::Shop;

/// Stopped between confirm and send it must not send what another relay has taken meanwhile.
async fn stopped_at(step: &str, backlog: i32, orders: i32) {
    let Some(shop) = Shop::open().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let resume_file = folder.path().join("go on");
    let resume_at = Some(resume_file.clone());
    let script =
        Script { crash_at: Some(step.to_owned()), resume_file: resume_at, backlog, orders, ..Script::new(&shop) };
    let mut process = script.spawn();
    process.wait_until_stopped().await;
    let relay = shop.start_relay(&shop.outbox()).await;
    shop.wait_until_drained().await;
    process.resume(&resume_file);
    assert!(process.wait_for_exit().await.success(), "the process goes on and ends cleanly");
    shop.wait_until_drained().await;
    drop(relay);
    let audit = audit(&shop).await;
    assert_eq!(audit.delivered, audit.committed);
    assert_eq!(audit.duplicates, 0, "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_after_a_confirm_sends_nothing_late() {
    stopped_at("relay::confirmed", 0, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_after_a_claim_sends_nothing_late() {
    stopped_at("sweeper::claimed", 50, 0).await;
}
