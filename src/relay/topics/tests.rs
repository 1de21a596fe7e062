use super::*;
use crate::clock::{Clock as _, SystemClock};
use crate::relay::passes::tests::told;

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
    topic.note_range(first, 10, &told(None, None, true), now);
    assert!(topic.is_claimable(now), "seen since it began");
    topic.note_range(claim_from(&topic, now), 10, &told(None, None, true), now);
    assert!(!topic.is_claimable(now));
    topic.note_due();
    topic.note_range(second, 10, &told(None, None, true), now);
    assert!(topic.is_claimable(now), "an earlier claim has no say any more");
}

/// It may have gone by rows.
#[test]
fn the_end_of_a_pass_is_no_end_of_the_topic() {
    let (topic, now) = (TopicState::new(Topic::new("orders"), Gauges::default()), SystemClock.now());
    topic.set_paused(false);
    topic.note_due();
    topic.note_range(claim_from(&topic, now), 10, &told(Some(10), Some(1_000), false), now);
    let last = claim_from(&topic, now);
    assert!(last.start.in_pass);
    topic.note_range(last, 10, &told(Some(11), None, true), now);
    assert!(topic.is_claimable(now));
    topic.note_range(claim_from(&topic, now), 10, &told(Some(12), None, true), now);
    assert!(!topic.is_claimable(now));
}

/// Whose claim of everything beyond found nothing: below the watermark, and perhaps another's.
#[test]
fn what_is_due_for_long_and_not_found_is_looked_for_from_the_beginning_now_and_then() {
    let (topic, now) = (TopicState::new(Topic::new("orders"), Gauges::default()), SystemClock.now());
    let slack = Duration::from_secs(5);
    let sweep = |at| {
        let from = claim_from(&topic, at);
        topic.note_range(from, 10, &told(Some(10), None, true), at);
        from.start.after
    };
    topic.note_due();
    assert_eq!(sweep(now), None, "the first begins at the beginning");
    for (overdue_by, later, goes_back) in
        [(slack, 1, false), (slack * 2, 2, true), (slack * 2, 3, false), (slack * 2, 7, true), (slack, 20, false)]
    {
        let at = now + Duration::from_secs(later);
        topic.note_overdue(overdue_by, slack, at);
        topic.note_due();
        // What is seen due is still to be claimed: that comes first.
        topic.note_overdue(slack * 9, slack, now + Duration::from_secs(50));
        assert_eq!(sweep(at).is_none(), goes_back, "{overdue_by:?} after {later} s");
    }
}
