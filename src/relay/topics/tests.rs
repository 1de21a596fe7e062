use super::claim_cursor::tests::claim_result;
use super::*;
use crate::clock::{Clock as _, SystemClock};

const TRAVERSAL_MAX: Duration = Duration::from_secs(1);

fn claim_from(topic: &TopicState, now: BootInstant) -> ClaimFrom {
    topic.claim_from(now, TRAVERSAL_MAX)
}

/// Rows may become due during a claim that does not see them. Nobody would report them again before the next poll.
#[test]
fn rows_seen_due_during_a_claim_are_claimed_next() {
    let (topic, now) = (TopicState::new(Topic::new("orders"), Gauges::default()), SystemClock.now());
    topic.set_paused(false);
    assert!(!topic.is_claimable(now));
    topic.note_due();
    let (first, second) = (claim_from(&topic, now), claim_from(&topic, now));
    topic.note_due();
    topic.note_range(first, 10, &claim_result(None, None, true), now);
    assert!(topic.is_claimable(now), "seen since it began");
    topic.note_range(claim_from(&topic, now), 10, &claim_result(None, None, true), now);
    assert!(!topic.is_claimable(now));
    topic.note_due();
    topic.note_range(second, 10, &claim_result(None, None, true), now);
    assert!(topic.is_claimable(now), "an earlier claim no longer changes this");
}

/// It may have skipped rows.
#[test]
fn the_end_of_a_traversal_is_no_end_of_the_topic() {
    let (topic, now) = (TopicState::new(Topic::new("orders"), Gauges::default()), SystemClock.now());
    topic.set_paused(false);
    topic.note_due();
    topic.note_range(claim_from(&topic, now), 10, &claim_result(Some(10), Some(1_000), false), now);
    let last = claim_from(&topic, now);
    assert!(last.start.in_traversal);
    topic.note_range(last, 10, &claim_result(Some(11), None, true), now);
    assert!(topic.is_claimable(now));
    topic.note_range(claim_from(&topic, now), 10, &claim_result(Some(12), None, true), now);
    assert!(!topic.is_claimable(now));
}
