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

/// With two workers, one is usually in the middle of a claim when the pass is over.
#[test]
fn a_claim_of_an_earlier_pass_has_no_say_in_the_next() {
    let topic = TopicState::new(Topic::new("orders"), Gauges::default());
    let began = SystemClock.now();
    let first = claim_from(&topic, began);
    topic.set_watermark(Some(DueMark(10)));
    topic.pass_to(first, Some(DueMark(1_000)), began);
    let straggler = claim_from(&topic, began);
    assert_eq!((straggler.after, straggler.in_pass), (Some(DueMark(1_000)), true));

    let later = began + PASS_MAX;
    let next = claim_from(&topic, later);
    assert_eq!((next.after, next.in_pass), (Some(DueMark(10)), false));
    topic.pass_to(straggler, Some(DueMark(1_040)), later);
    topic.end_pass(straggler);
    topic.pass_to(next, Some(DueMark(12)), later);
    assert_eq!(claim_from(&topic, later).after, Some(DueMark(12)));

    let open = claim_from(&topic, later);
    topic.forget_watermark();
    topic.pass_to(open, Some(DueMark(2_000)), later);
    assert_eq!(claim_from(&topic, later).after, None, "rows may have come back anywhere");
}
