//! What a failure does to its record, its key and the others.

use super::*;

#[test]
fn a_failed_record_waits_and_other_keys_go_on() {
    let mut harness = Harness::new(|_| {});
    for (offset, key) in [(0, "a"), (1, "b"), (2, "a")] {
        harness.add(offset, key);
    }
    let first = harness.job();
    assert_eq!(harness.fail(&first), Settled::Retried { failures: 1, wait: Duration::from_secs(1) });
    let other = harness.job();
    assert_eq!(offset(&other), 1);
    harness.complete(&other, Outcome::Handled);
    assert!(harness.try_job().is_none(), "what follows of the key waits as well");
    let Next::Wait(Some(until)) = harness.engine.next(harness.now) else { panic!("a worker is to wait") };
    assert_eq!(until, harness.now + Duration::from_secs(1));
    harness.advance(1);
    assert_eq!(offset(&harness.job()), 0);
}

#[test]
fn a_record_that_failed_for_good_is_given_up_and_its_key_goes_on() {
    let mut harness = Harness::new(|options| options.attempts_max = 2);
    harness.add(0, "a");
    harness.add(1, "a");
    let first = harness.job();
    harness.fail(&first);
    harness.advance(1);
    let second = harness.job();
    assert_eq!(harness.fail(&second), Settled::GivenUp { failures: 2 });
    let last = harness.job();
    assert_eq!(last.step, Step::GiveUp { reason: "refused".into() });
    harness.complete(&last, Outcome::DeadLettered);
    let next = harness.job();
    assert_eq!((offset(&next), next.is_key_parked, harness.next_offset()), (1, false, 1));
}

#[test]
fn a_permanent_error_spends_no_further_attempt() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    let job = harness.job();
    let settled = harness.complete(&job, Outcome::Failed(HandlerError::permanent("unknown customer")));
    assert_eq!(settled, Settled::GivenUp { failures: 1 });
}

#[test]
fn a_held_key_waits_for_ever_and_holds_the_watermark() {
    let mut harness = Harness::new(|options| {
        options.attempts_max = 1;
        options.on_failure = OnFailure::HoldKey;
    });
    harness.add(0, "a");
    harness.add(1, "b");
    for wait in [1, 2, 4, 4, 4] {
        let job = harness.job();
        let job = if offset(&job) == 1 {
            harness.complete(&job, Outcome::Handled);
            harness.job()
        } else {
            job
        };
        assert!(matches!(harness.fail(&job), Settled::Held { .. }));
        harness.advance(wait);
    }
    assert_eq!(harness.next_offset(), 0);
}

#[test]
fn a_record_that_cannot_be_parked_is_tried_again() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    let job = harness.job();
    harness.fail(&job);
    let parking = harness.job();
    harness.fail(&parking);
    assert!(harness.try_job().is_none());
    harness.advance(2);
    assert_eq!(harness.job().step, Step::GiveUp { reason: "refused".into() }, "for the first reason");
}

#[test]
fn conflicts_spend_no_attempt_until_there_are_many() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    for _ in 0..crate::limits::CONSUMER_CONFLICTS_MAX {
        let job = harness.job();
        assert_eq!(harness.complete(&job, Outcome::Conflict), Settled::Deferred { is_outage_new: false });
        harness.advance(1);
    }
    let job = harness.job();
    assert_eq!(harness.complete(&job, Outcome::Conflict), Settled::GivenUp { failures: 1 });
}

#[test]
fn a_database_that_is_away_pauses_everything_and_spends_nothing() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    harness.add(1, "b");
    let [first, second] = [harness.job(), harness.job()];
    let away = || Outcome::DatabaseAway("refused".to_owned());
    assert_eq!(harness.complete(&first, away()), Settled::Deferred { is_outage_new: true });
    assert_eq!(harness.complete(&second, away()), Settled::Deferred { is_outage_new: false });
    assert_eq!(harness.engine.flow().pause, [harness.id.clone()]);
    assert!(harness.try_job().is_none());
    for _ in 0..5 {
        harness.advance(2);
        let probe = harness.job();
        assert!(probe.is_probe && harness.try_job().is_none(), "one at a time");
        harness.complete(&probe, away());
    }
    harness.advance(2);
    let probe = harness.job();
    assert!(harness.engine.complete(&probe, &Outcome::Handled, harness.now).1, "it is back");
    assert_eq!(harness.engine.flow().resume, [harness.id.clone()]);
    assert!(harness.try_job().is_some());
}
