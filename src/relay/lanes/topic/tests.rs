use std::collections::BTreeSet;

use super::*;
use crate::relay::gauges::Gauges;
use crate::topic::Topic;

#[test]
fn lanes_beyond_what_one_read_takes_have_their_turn() {
    let topic = TopicState::new(Topic::new("orders").ordered_by_key().lanes(200), Gauges::default());
    let lanes = TopicLanes::new(Arc::new(topic));
    let (now, hour) = (BootInstant::from_boot(Duration::ZERO), Duration::from_secs(3_600));
    for lane in 0..200 {
        let held = HeldLane { lane, fence: 1 };
        lanes.owned().insert(lane, Lane::new(held, Way::Plain, now + hour, now, now));
    }
    // Each of them wants to be read every time, as with a backlog.
    let mut turn = 0;
    let read: Vec<_> = (0..5).flat_map(|_| lanes.scans(&mut turn, 80, now)).map(|(held, _)| held.lane).collect();
    assert_eq!(read.len(), 400);
    assert_eq!(read[..200].iter().collect::<BTreeSet<_>>().len(), 200, "each once before one comes twice");
}
