//! kill -9 at every step between COMMIT and settle, on every database.

use std::collections::BTreeSet;

use diesel_outbox::crash_points;

use super::any_shop::{AnyShop, Database};
use super::child::Script;
use super::crash_ordered::TESTED as ORDERED_TESTED;
use crate::consumer::crash::TESTED as CONSUMER_TESTED;
use crate::transport::half_rocketmq::crash::TESTED as HALF_TESTED;

/// What a process must do to pass a step, for the steps that a healthy send does not pass.
fn script_for(step: &str, any_shop: &AnyShop) -> Script {
    let script = Script { crash_at: Some(step.to_owned()), nth_hit: 3, ..Script::of(any_shop) };
    match step {
        "sweeper::claimed" | "sweeper::closing" | "sweeper::closed" => {
            Script { backlog: 50, orders: 0, nth_hit: 1, ..script }
        }
        // Written for many rows at once: how often is not for a test to say.
        "relay::confirmed" | "relay::settling" | "relay::settled" => Script { nth_hit: 1, ..script },
        "relay::extended" => Script { acknowledged_after_ms: 4_000, nth_hit: 1, ..script },
        "relay::failing" => Script { refusals: 5, nth_hit: 1, ..script },
        "relay::dead_lettering" => Script { orders: 1, refusals: 3, nth_hit: 1, ..script },
        _ => script,
    }
}

/// Kills a shop at a step, lets another relay take over, and audits.
async fn dies_at(step: &str, on: Database) {
    let Some(any_shop) = AnyShop::open(on).await else { return };
    let mut process = script_for(step, &any_shop).spawn();
    process.wait_until_killed().await;
    let relay = any_shop.relay(&any_shop.at.outbox(), any_shop.at.kafka()).start().await.unwrap();
    any_shop.wait_until_drained().await;
    drop(relay);
    let audit = any_shop.audit().await;
    assert!(audit.committed > 0, "at {step}: {audit:?}");
    assert_eq!(audit.delivered + audit.dead_letters, audit.committed, "at {step}: {audit:?}");
}

macro_rules! at_each_step {
    ($($test:ident = $step:literal;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            dies_at($step, Database::Postgres).await;
        })+

        mod on_mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at($step, super::Database::Mariadb).await;
            })+
        }

        /// Whose claims hold leases and no locks.
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at($step, super::Database::Sqlite).await;
            })+
        }

        const TESTED: &[&str] = &[$($step,)+];
    };
}

at_each_step! {
    after_commit = "hook::committed";
    after_handing_over = "hook::handed_over";
    after_the_confirm = "relay::confirmed";
    after_a_send = "relay::sent";
    at_an_acknowledgement = "relay::acknowledged";
    before_the_settle = "relay::settling";
    after_the_settle = "relay::settled";
    after_extending_leases = "relay::extended";
    before_recording_a_failure = "relay::failing";
    before_dead_lettering = "relay::dead_lettering";
    after_a_claim = "sweeper::claimed";
    before_closing_a_claim = "sweeper::closing";
    after_closing_a_claim = "sweeper::closed";
}

#[test]
fn every_step_is_tested() {
    let known: BTreeSet<_> = crash_points::ALL.iter().copied().collect();
    assert_eq!(known, TESTED.iter().chain(ORDERED_TESTED).chain(HALF_TESTED).chain(CONSUMER_TESTED).copied().collect());
}
