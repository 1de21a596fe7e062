//! Leases of lanes that were not renewed in time.

use std::time::Duration;

use tokio::time::sleep;

use super::lanes::{TOPIC, owned, world};
use super::{Relay, World};
use crate::store::{HeldLane, LaneStore as _};

/// Lanes that a relay goes by as its own at this moment.
fn held(relay: &Relay) -> Vec<HeldLane> {
    let lanes =
        relay.engines.all.iter().flat_map(|engine| engine.lanes.iter().map(|lanes| (engine.clock.now(), lanes)));
    let held = lanes.flat_map(|(now, lanes)| {
        let owned = lanes.owned();
        owned.values().filter(|lane| now < lane.valid_until).map(|lane| lane.held).collect::<Vec<_>>()
    });
    held.collect()
}

impl World {
    async fn assert_it_holds_what_the_database_says(&self, relay: &Relay) {
        let view = self.store.look_at_lanes(&TOPIC.into()).await.expect("the database is there");
        let node = relay.status().node;
        for held in held(relay) {
            let lane = view.lanes[usize::from(held.lane)];
            let is_its = (lane.owner, lane.fence) == (Some(node), held.fence) && !lane.expires_in.is_zero();
            assert!(is_its, "{held:?} is held, and the database says {lane:?}");
        }
    }
}

/// The database comes back after the relay has let go, and before it lets go itself, and by then there are more nodes. What is beyond the
/// share was told as owned and not renewed: a process sent from lanes that others took.
#[tokio::test(start_paused = true)]
async fn a_lane_is_held_no_longer_than_it_is_leased() {
    let mut world = world();
    world.limits.lane_lease_duration = Duration::from_secs(3);
    world.limits.poll_interval = Duration::from_millis(100);
    let mut other = world.neighbour();
    other.limits = world.limits.clone();
    let first = world.start().await;
    world.until("it owns all", || owned(&first) == 16).await;
    for _ in 0..5 {
        let second = other.start().await;
        let joined = async {
            while second.status().lanes.first().is_none_or(|lane| lane.nodes < 2) {
                sleep(Duration::from_millis(1)).await
            }
        };
        joined.await;
        let view = world.store.look_at_lanes(&TOPIC.into()).await.expect("look");
        let node = first.status().node;
        let ends_in = view.lanes.iter().filter(|lane| lane.owner == Some(node)).map(|lane| lane.expires_in).max();
        world.store.set_down(true);
        sleep(ends_in.expect("it owns some") - world.limits.term_margin_duration + Duration::from_millis(150)).await;
        assert_eq!(held(&first), [], "its terms are over");
        world.store.set_down(false);
        for _ in 0..400 {
            sleep(Duration::from_millis(10)).await;
            world.assert_it_holds_what_the_database_says(&first).await;
            world.assert_it_holds_what_the_database_says(&second).await;
        }
        second.shutdown(Duration::from_secs(10)).await;
        world.until("it owns all again", || owned(&first) == 16).await;
    }
}
