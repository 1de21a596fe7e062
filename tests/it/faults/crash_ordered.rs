//! kill -9 at every step of a message of an ordered topic, from COMMIT to settle and to the hand-over of its lane.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use diesel_outbox::crash_points;
use uuid::Uuid;

use super::any_shop::Database;
use super::ordered::Ordered;
use super::owner::{Ends, Script, Sends};
use crate::consumer::crash::TESTED as CONSUMER_TESTED;
use crate::transport::half_rocketmq::crash::TESTED as HALF_TESTED;

/// Those of unordered topics alone.
const UNORDERED_ONLY: &[&str] =
    &["relay::confirmed", "relay::extended", "sweeper::claimed", "sweeper::closing", "sweeper::closed"];

/// Before the first send of its process.
const BEFORE_ALL: &[&str] = &["lane::renewed", "lane::fenced", "lane::recovered"];

/// With a message at the broker that is not settled.
const BEHIND_THE_BROKER: &[&str] = &["relay::acknowledged", "relay::settling", "lane::committed"];

/// What a process must do to pass a step.
fn script_for(step: &str, ordered: &Ordered) -> Script {
    let crash_at = Some(step.to_owned());
    let script = Script { backlog: 0..20, orders: 20..60, ends: Ends::WhenDrained, crash_at, ..ordered.script() };
    match step {
        "hook::committed" | "hook::handed_over" | "relay::acknowledged" => Script { nth_hit: 3, ..script },
        // Each key has a second message, which goes behind the answer to its first.
        "relay::sent" | "lane::loaded" => Script { nth_hit: 2, ..script },
        "relay::failing" => Script { refusals: 5, ..script },
        "relay::dead_lettering" => Script { refusals: 1, dead_letters_at_once: true, ..script },
        // Late answers keep some lanes from being handed over, and rows in all of them.
        "lane::releasing" | "lane::released" => Script { ends: Ends::AtOnce, acknowledged_after_ms: 8_000, ..script },
        _ => script,
    }
}

/// Kills an owner at a step, lets another take over, and audits.
async fn dies_at(step: &str, sends: Sends) {
    let Some(ordered) = Ordered::open(Database::Postgres, sends).await else { return };
    let mut owner = script_for(step, &ordered).spawn();
    owner.wait_until_killed().await;
    let unsettled: HashSet<Uuid> = ordered.shop.at.unsettled().await.into_iter().collect();
    // Between two settles there may be nothing. Exactly-once lanes get no late answers, so all may be settled before the first is
    // handed over.
    let may_be_over =
        step == "relay::settled" || (matches!(step, "lane::releasing" | "lane::released") && sends == Sends::Once);
    assert!(!unsettled.is_empty() || may_be_over, "at {step} nothing is left");
    let relay = ordered.relay().await;
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    ordered.place(&mut connection, &outbox, 60..120).await;
    ordered.shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean(), "at {step}");
    let audit = ordered.audit().await;
    if sends == Sends::Once {
        return assert_eq!(audit.duplicates, 0, "at {step}: {audit:?}");
    }
    let explained = if BEFORE_ALL.contains(&step) { HashSet::new() } else { unsettled };
    let unexplained: Vec<&Uuid> = audit.duplicate_ids.difference(&explained).collect();
    assert!(unexplained.is_empty(), "at {step}, sent again: {unexplained:?}");
    assert!(audit.duplicates > 0 || !BEHIND_THE_BROKER.contains(&step), "at {step}: {audit:?}");
}

macro_rules! at_each_step {
    ($($test:ident = $step:literal, $sends:ident $(, $once:ident)?;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            dies_at($step, Sends::$sends).await;
        })+

        /// The steps that are tested here.
        pub(super) const TESTED: &[&str] = &[$($step,)+];

        $($(/// An exactly-once topic has no duplicate, wherever its owner dies.
        #[tokio::test(flavor = "multi_thread")]
        async fn $once() {
            dies_at($step, Sends::Once).await;
        })?)+
    };
}

at_each_step! {
    after_commit = "hook::committed", Plain, once_after_commit;
    after_handing_over = "hook::handed_over", Plain, once_after_handing_over;
    after_taking_lanes = "lane::renewed", Plain, once_after_taking_lanes;
    after_fencing_a_lane = "lane::fenced", Fenced, once_after_fencing_a_lane;
    after_recovering_a_lane = "lane::recovered", Once;
    after_reading_rows = "lane::loaded", Plain, once_after_reading_rows;
    after_a_send = "relay::sent", Plain, once_after_a_send;
    before_the_broker_commits = "lane::committing", Fenced, once_before_the_broker_commits;
    after_the_broker_committed = "lane::committed", Fenced, once_after_the_broker_committed;
    at_an_acknowledgement = "relay::acknowledged", Plain, once_at_an_acknowledgement;
    before_the_settle = "relay::settling", Plain, once_before_the_settle;
    after_the_settle = "relay::settled", Plain, once_after_the_settle;
    before_recording_a_failure = "relay::failing", Plain;
    before_dead_lettering = "relay::dead_lettering", Plain;
    before_handing_lanes_over = "lane::releasing", Plain, once_before_handing_lanes_over;
    after_handing_lanes_over = "lane::released", Plain, once_after_handing_lanes_over;
}

#[test]
fn every_step_of_ordered_topics_is_tested() {
    let elsewhere = [UNORDERED_ONLY, HALF_TESTED, CONSUMER_TESTED];
    let is_elsewhere = |step: &&str| elsewhere.iter().any(|steps| steps.contains(step));
    let known: BTreeSet<_> = crash_points::ALL.iter().copied().filter(|step| !is_elsewhere(step)).collect();
    assert_eq!(known, TESTED.iter().copied().collect());
}
