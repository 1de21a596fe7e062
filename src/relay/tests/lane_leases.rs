//! Leases of lanes that were not renewed in time.

use std::time::Duration;

use tokio::time::sleep;

use super::lanes::{TOPIC, owned, world};
use super::{Relay, World};
use crate::lane::NodeId;
use crate::store::{LaneBalanceSpec, LaneStore as _, OwnedLane};

/// The lanes that a relay considers its own now.
fn held(relay: &Relay) -> Vec<OwnedLane> {
    let lanes =
        relay.engines.all.iter().flat_map(|engine| engine.lanes.iter().map(|lanes| (engine.clock.now(), lanes)));
    let held = lanes.flat_map(|(now, lanes)| {
        let owned = lanes.owned();
        owned.values().filter(|lane| now < lane.valid_until).map(|lane| lane.ownership.held).collect::<Vec<_>>()
    });
    held.collect()
}

impl World {
    async fn assert_it_holds_the_lanes_of_the_database(&self, relay: &Relay) {
        let view = self.store.read_lanes(&TOPIC.into()).await.expect("the database answers");
        let node = relay.status().node;
        for held in held(relay) {
            let lane = view.lanes[usize::from(held.lane)];
            let is_its = (lane.owner, lane.fence) == (Some(node), held.fence) && !lane.expires_in.is_zero();
            assert!(is_its, "{held:?} is held, and the database says {lane:?}");
        }
    }
}

/// The database comes back after the relay has forgotten its lanes, but before their leases end there. By then there
/// are more nodes. Lanes beyond its share were reported as owned but not renewed: the relay relied on them while
/// anybody might take them.
#[tokio::test(start_paused = true)]
async fn a_lane_is_held_no_longer_than_it_is_leased() {
    let mut world = world();
    world.limits.lane_lease_duration = Duration::from_secs(3);
    let relay = world.start().await;
    world.until("it owns all", || owned(&relay) == 16).await;
    let other = LaneBalanceSpec {
        topic: TOPIC.into(),
        node: NodeId::new(),
        renew: Vec::new(),
        release: Vec::new(),
        joins: true,
        lease_duration: Duration::from_secs(60),
        quiet_duration: Duration::ZERO,
    };
    // Nothing runs in between: the database is down before the relay has seen the other node.
    let view = world.store.balance_lanes(&other).await.expect("the other joins");
    world.store.set_down(true);
    let ends_in = view.lanes.iter().map(|lane| lane.expires_in).max().expect("there are lanes");
    sleep(ends_in - world.limits.lease_margin_duration + Duration::from_millis(150)).await;
    assert_eq!(held(&relay), [], "the leases of its lanes are over");
    world.store.set_down(false);
    // It balances now, and the next time after the leases have ended.
    relay
        .engines
        .all
        .iter()
        .flat_map(|engine| engine.lanes.iter())
        .for_each(|lanes| lanes.balancer_wakeup.notify_one());
    for _ in 0..400 {
        sleep(Duration::from_millis(10)).await;
        world.assert_it_holds_the_lanes_of_the_database(&relay).await;
    }
    world.until("it has its share", || owned(&relay) == 8).await;
}
