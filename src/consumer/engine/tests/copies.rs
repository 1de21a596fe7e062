//! Copies that follow one another are looked up together.

use super::*;

fn copy(job: &Job, known: impl Fn(i64) -> bool) -> Outcome {
    let offsets = job.ahead.iter().map(|record| record.offset).filter(|offset| known(*offset)).collect();
    Outcome::Duplicate { is_key_parked: false, ahead: Copies { offsets, parked_keys: HashSet::new() } }
}

fn ahead(job: &Job) -> Vec<i64> {
    let mut offsets: Vec<i64> = job.ahead.iter().map(|record| record.offset).collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn the_second_copy_looks_up_those_behind_it() {
    let mut harness = Harness::new(|_| {});
    for offset in 0..10 {
        harness.add(offset, if offset % 2 == 0 { "even" } else { "" });
    }
    let first = harness.job();
    assert!(first.ahead.is_empty(), "nothing says that others are copies");
    assert_eq!(harness.complete(&first, copy(&first, |_| true)), Settled::Copies(0));
    let second = harness.job();
    assert_eq!(ahead(&second).len(), 8);
    let third = harness.job();
    assert!(third.ahead.is_empty(), "one worker looks them up");
    assert_eq!(harness.complete(&third, copy(&third, |_| true)), Settled::Copies(0));
    // The rest of the other queue is free now.
    assert_eq!(harness.complete(&second, copy(&second, |offset| offset < 7)), Settled::Copies(4));
    assert_eq!(harness.next_offset(), 7);
    let left: Vec<i64> = std::iter::from_fn(|| harness.try_job()).map(|job| offset(&job)).collect();
    assert_eq!(left.iter().copied().collect::<HashSet<_>>(), HashSet::from([7, 8]), "{left:?}");
    assert_eq!(harness.engine.rows(), 3);
}

#[test]
fn a_new_record_ends_the_run() {
    let mut harness = Harness::new(|_| {});
    (0..4).for_each(|offset| harness.add(offset, "a"));
    let first = harness.job();
    harness.complete(&first, copy(&first, |_| true));
    let second = harness.job();
    assert_eq!(ahead(&second), [2, 3]);
    harness.complete(&second, Outcome::Handled);
    assert!(harness.job().ahead.is_empty());
}

#[test]
fn what_failed_runs_or_waits_is_not_passed_over() {
    let mut harness = Harness::new(|_| {});
    ["a", "b", "c", "d", "d"].iter().enumerate().for_each(|(offset, key)| harness.add(offset as i64, key));
    let (failing, running, copied) = (harness.job(), harness.job(), harness.job());
    assert!(matches!(harness.fail(&failing), Settled::Retried { .. }));
    harness.complete(&copied, copy(&copied, |_| true));
    let last = harness.job();
    assert_eq!(ahead(&last), [4], "behind the failing and the running one there is nothing");
    let all = HashSet::from([0, 1, 4]);
    let outcome =
        Outcome::Duplicate { is_key_parked: false, ahead: Copies { offsets: all, parked_keys: HashSet::new() } };
    assert_eq!(harness.complete(&last, outcome), Settled::Copies(1));
    assert_eq!(harness.next_offset(), 0, "the failing one waits");
    harness.complete(&running, Outcome::Handled);
    harness.advance(1);
    assert_eq!(offset(&harness.job()), 0);
}

#[test]
fn keys_that_were_parked_meanwhile_are_known() {
    let mut harness = Harness::new(|options| options.on_failure = OnFailure::Park);
    (0..3).for_each(|offset| harness.add(offset, "a"));
    let first = harness.job();
    harness.complete(&first, copy(&first, |_| true));
    let second = harness.job();
    let parked_keys = HashSet::from([Arc::from(&b"a"[..])]);
    let found = Copies { offsets: HashSet::new(), parked_keys };
    harness.complete(&second, Outcome::Duplicate { is_key_parked: false, ahead: found });
    assert!(harness.job().is_key_parked, "the third one has to look");
}

#[test]
fn with_offsets_in_the_database_each_copy_moves_them() {
    let mut harness = Harness::new(|options| options.progress = Progress::InboxAndOffsets);
    (0..3).for_each(|offset| harness.add(offset, "a"));
    let first = harness.job();
    harness.complete(&first, copy(&first, |_| true));
    assert!(harness.job().ahead.is_empty());
}

#[test]
fn after_a_revocation_nothing_is_passed_over() {
    let mut harness = Harness::new(|_| {});
    (0..4).for_each(|offset| harness.add(offset, "a"));
    let first = harness.job();
    harness.complete(&first, copy(&first, |_| true));
    let second = harness.job();
    harness.remove();
    harness.open(Opening::default());
    (0..4).for_each(|offset| harness.add(offset, "a"));
    assert_eq!(harness.complete(&second, copy(&second, |_| true)), Settled::Late);
    assert_eq!((harness.next_offset(), harness.engine.rows()), (0, 4));
}
