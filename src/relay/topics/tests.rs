use super::*;
use crate::clock::{Clock as _, SystemClock};

const FULL: Duration = Duration::from_secs(60);
const PASS_MAX: Duration = Duration::from_secs(1);

fn claim_from(topic: &TopicState, now: BootInstant) -> ClaimFrom {
    topic.claim_from(now, FULL, PASS_MAX)
}

/// What falls due while a claim is under way that does not see it: nobody would tell of it once more before the next poll.
#[test]
fn what_is_seen_due_during_a_claim_is_claimed_next() {
    let (topic, now) = (TopicState::new(Topic::new("orders"), Gauges::default()), SystemClock.now());
    topic.set_paused(false);
    assert!(!topic.is_claimable(now));
    topic.note_due();
    let (first, second) = (claim_from(&topic, now), claim_from(&topic, now));
    topic.note_due();
    topic.note_swept(first);
    assert!(topic.is_claimable(now), "seen since it began");
    topic.note_swept(claim_from(&topic, now));
    assert!(!topic.is_claimable(now));
    topic.note_due();
    topic.note_swept(second);
    assert!(topic.is_claimable(now), "an earlier claim has no say any more");
}
