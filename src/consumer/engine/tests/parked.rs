//! Parked keys, and what is released.

use super::*;

fn key(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

#[test]
fn what_follows_a_parked_record_is_known_to_follow_it() {
    let mut harness = Harness::new(|options| options.attempts_max = 1);
    for (offset, key) in [(0, "a"), (1, "a"), (2, "b")] {
        harness.add(offset, key);
    }
    let job = harness.job();
    harness.fail(&job);
    let parking = harness.job();
    harness.complete(&parking, Outcome::Parked);
    let jobs = [harness.job(), harness.job()];
    assert_eq!(jobs.each_ref().map(|job| (offset(job), job.is_key_parked)), [(2, false), (1, true)]);
    // The database knows that the key has no parked records any more.
    harness.complete(&jobs[1], Outcome::Handled);
    harness.add(3, "a");
    assert!(!harness.job().is_key_parked);
}

#[test]
fn parked_keys_are_known_from_the_beginning() {
    let mut harness = Harness::new(|_| {});
    let parked_keys = HashSet::from([key("a")]);
    harness.open(Opening { parked_keys, ..Opening::default() });
    harness.add(0, "a");
    assert!(harness.job().is_key_parked);
    assert_eq!(harness.engine.with_parked(), [harness.id.clone()]);
}

#[test]
fn a_duplicate_tells_that_its_key_is_parked() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    harness.add(1, "a");
    let job = harness.job();
    harness.complete(&job, Outcome::Duplicate { is_key_parked: true, ahead: Copies::default() });
    assert!(harness.job().is_key_parked, "an earlier owner has parked it");
}

#[test]
fn a_replay_runs_before_what_follows_of_its_key() {
    let mut harness = Harness::new(|_| {});
    harness.open(Opening { parked_keys: HashSet::from([key("a")]), ..Opening::default() });
    harness.add(0, "a");
    harness.add(1, "a");
    let first = harness.job();
    let replay = || vec![(QueueKey::Key(key("a")), Replay::Key(key("a")))];
    harness.engine.replay(&harness.id, replay());
    harness.engine.replay(&harness.id, replay());
    assert!(harness.try_job().is_none(), "the key has a record under way");
    harness.complete(&first, Outcome::Parked);
    let job = harness.job();
    assert!(matches!(job.work, Work::Replay(_)));
    let before = harness.engine.replays_ended();
    harness.complete(&job, Outcome::Replayed { is_key_free: true });
    assert_ne!(harness.engine.replays_ended(), before, "a release that was read before is taken");
    let next = harness.job();
    assert_eq!((offset(&next), next.is_key_parked), (1, false), "the replay is there once");
}

#[test]
fn a_replay_that_fails_is_not_tried_again_by_itself() {
    let mut harness = Harness::new(|_| {});
    harness.open(Opening { parked_keys: HashSet::from([key("a")]), ..Opening::default() });
    harness.engine.replay(&harness.id, vec![(QueueKey::Key(key("a")), Replay::Key(key("a")))]);
    let job = harness.job();
    let before = harness.engine.replays_ended();
    assert_eq!(harness.fail(&job), Settled::ReplayFailed);
    assert!(harness.try_job().is_none());
    assert_ne!(harness.engine.replays_ended(), before, "a release that was read before is taken");
    harness.add(0, "a");
    assert!(harness.job().is_key_parked);
}

#[test]
fn a_replay_that_was_in_the_way_is_tried_again_without_another_release() {
    let mut harness = Harness::new(|_| {});
    harness.open(Opening { parked_keys: HashSet::from([key("a")]), ..Opening::default() });
    harness.engine.replay(&harness.id, vec![(QueueKey::Key(key("a")), Replay::Key(key("a")))]);
    for outcome in [Outcome::Conflict, Outcome::Postponed("locked".to_owned())] {
        let job = harness.job();
        assert_eq!(harness.complete(&job, outcome), Settled::Deferred);
        assert!(harness.try_job().is_none());
        harness.advance(1);
    }
    assert!(matches!(harness.job().work, Work::Replay(_)));
}
