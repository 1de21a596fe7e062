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
fn a_record_that_failed_for_good_is_parked_and_its_key_goes_on() {
    let mut harness = Harness::new(|options| options.attempts_max = 2);
    harness.add(0, "a");
    harness.add(1, "a");
    let first = harness.job();
    harness.fail(&first);
    harness.advance(1);
    let second = harness.job();
    assert_eq!(harness.fail(&second), Settled::Exhausted { failures: 2 });
    let last = harness.job();
    assert_eq!(last.step, Step::GiveUp { reason: "refused".into() });
    harness.complete(&last, Outcome::ParkedAlone);
    let next = harness.job();
    assert_eq!((offset(&next), next.is_key_parked, harness.next_offset()), (1, false, 1));
}

#[test]
fn a_permanent_error_spends_no_further_attempt() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    let job = harness.job();
    let settled = harness.complete(&job, Outcome::Failed(HandlerError::permanent("unknown customer")));
    assert_eq!(settled, Settled::Exhausted { failures: 1 });
}

#[test]
fn a_held_key_waits_for_ever_and_holds_the_watermark() {
    let mut harness = Harness::new(|options| {
        options.attempts_max = 1;
        options.on_failure = OnFailure::BlockKey;
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
        assert!(matches!(harness.fail(&job), Settled::Blocked { .. }));
        harness.advance(wait);
    }
    assert_eq!(harness.next_offset(), 0);
}

#[test]
fn a_record_without_a_key_blocks_those_behind_it_without_one() {
    let mut harness = Harness::new(|options| {
        options.attempts_max = 1;
        options.on_failure = OnFailure::BlockKey;
    });
    for (offset, key) in [(0, ""), (1, ""), (2, "a")] {
        harness.add(offset, key);
    }
    let first = harness.job();
    assert!(matches!(harness.fail(&first), Settled::Blocked { .. }));
    let other = harness.job();
    assert_eq!(offset(&other), 2);
    harness.complete(&other, Outcome::Handled);
    harness.advance(1);
    let again = harness.job();
    assert_eq!((offset(&again), again.step == Step::Handle), (0, true), "tried again, not parked");
    assert!(harness.try_job().is_none(), "the next one without a key waits");
}

#[test]
fn a_record_that_cannot_be_parked_is_tried_again() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    let job = harness.job();
    harness.fail(&job);
    let parking = harness.job();
    harness.complete(&parking, Outcome::Postponed("no such table".to_owned()));
    assert!(harness.try_job().is_none());
    harness.advance(2);
    assert_eq!(harness.job().step, Step::GiveUp { reason: "refused".into() }, "for the first reason");
}

#[test]
fn a_failure_of_the_consumers_own_spends_nothing_and_waits_longer_each_time() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    let mut waits = Vec::new();
    for _ in 0..50 {
        let job = harness.job();
        assert_eq!(harness.complete(&job, Outcome::Postponed("no such table".to_owned())), Settled::Deferred);
        let Next::Wait(Some(until)) = harness.engine.next(harness.now) else { panic!("it is to wait") };
        waits.push(until - harness.now);
        harness.now = until;
    }
    assert!(waits.is_sorted() && waits[0] < waits[49] && waits[49] <= Duration::from_secs(2), "{waits:?}");
    let job = harness.job();
    assert_eq!(harness.complete(&job, Outcome::Handled), Settled::Done);
}

#[test]
fn conflicts_spend_no_attempt_until_there_are_many() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    for _ in 0..crate::limits::CONSUMER_CONFLICTS_MAX {
        let job = harness.job();
        assert_eq!(harness.complete(&job, Outcome::Conflict), Settled::Deferred);
        harness.advance(1);
    }
    let job = harness.job();
    // As a failure it reaches the hook, the metrics and the log.
    let outcome = harness.engine.judge(&job, Outcome::Conflict);
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(harness.complete(&job, outcome), Settled::Exhausted { failures: 1 });
}

fn away() -> Outcome {
    Outcome::DatabaseAway("refused".to_owned())
}

fn lost() -> Outcome {
    Outcome::ConnectionLost(HandlerError::retriable("closed"))
}

#[test]
fn a_database_that_is_away_pauses_everything_and_spends_nothing() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    harness.add(1, "b");
    let [first, second] = [harness.job(), harness.job()];
    assert!(harness.engine.database_is_away(harness.now) && !harness.engine.database_is_away(harness.now));
    for job in [&first, &second] {
        assert_eq!(harness.complete(job, away()), Settled::Deferred);
    }
    assert_eq!(harness.engine.flow().pause, [harness.id.clone()]);
    for _ in 0..5 {
        harness.advance(2);
        assert!(harness.try_job().is_none() && harness.engine.is_ping_due(harness.now), "the loop asks, and no record");
        harness.engine.database_is_still_away(harness.now);
        assert!(!harness.engine.is_ping_due(harness.now));
    }
    assert!(harness.engine.database_is_back() && !harness.engine.database_is_back());
    assert_eq!(harness.engine.flow().resume, [harness.id.clone()]);
    assert!(harness.try_job().is_some() && harness.try_job().is_some());
}

#[test]
fn an_outage_ends_although_what_began_it_is_gone() {
    let mut harness = Harness::new(|_| {});
    harness.open(Opening { parked_keys: HashSet::from([Arc::from(&b"a"[..])]), ..Opening::default() });
    harness.engine.replay(&harness.id, vec![(QueueKey::Key(Arc::from(&b"a"[..])), Replay::Key(Arc::from(&b"a"[..])))]);
    let replay = harness.job();
    harness.engine.database_is_away(harness.now);
    harness.engine.remove(&[harness.id.clone()]);
    assert_eq!(harness.complete(&replay, away()), Settled::Late);
    harness.advance(1);
    assert!(harness.engine.is_ping_due(harness.now));
    harness.engine.database_is_back();
    harness.open(Opening::default());
    harness.add(0, "a");
    assert!(harness.try_job().is_some());
}

#[test]
fn a_lost_connection_is_an_attempt_unless_the_database_was_away() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    harness.add(0, "a");
    harness.add(1, "b");
    let [first, second] = [harness.job(), harness.job()];
    let judged = harness.engine.judge(&first, lost());
    assert!(matches!(judged, Outcome::Failed(_)), "{judged:?}");
    harness.engine.database_is_away(harness.now);
    harness.engine.database_is_back();
    let judged = harness.engine.judge(&second, lost());
    assert!(matches!(judged, Outcome::Postponed(_)), "{judged:?}");
}
