//! Order, bounds, and partitions that come and go.

use super::*;

#[test]
fn keys_run_in_parallel_and_each_in_order() {
    let mut harness = Harness::new(|_| {});
    for (offset, key) in [(0, "a"), (1, "a"), (2, "b"), (3, ""), (4, "")] {
        harness.add(offset, key);
    }
    let jobs = [harness.job(), harness.job(), harness.job()];
    assert_eq!(jobs.each_ref().map(|job| offset(job)), [0, 2, 3], "the first of each key, and of those without one");
    assert!(harness.try_job().is_none(), "the others wait for them");
    harness.complete(&jobs[1], Outcome::Handled);
    assert_eq!(harness.next_offset(), 0, "the first record is not done");
    harness.complete(&jobs[0], Outcome::Handled);
    assert_eq!(harness.next_offset(), 1);
    assert_eq!(offset(&harness.job()), 1);
}

#[test]
fn records_without_a_key_run_in_parallel_if_that_is_chosen() {
    let mut harness = Harness::new(|options| options.keyless_in_parallel = true);
    harness.add(0, "");
    harness.add(1, "");
    assert_eq!([harness.job(), harness.job()].map(|job| offset(&job)), [0, 1]);
}

#[test]
fn with_offsets_in_the_database_a_partition_runs_in_order() {
    let mut harness = Harness::new(|options| options.progress = Progress::Offsets);
    harness.open(Opening { start: 5, ..Opening::default() });
    for (offset, key) in [(5, "a"), (9, "b")] {
        harness.add(offset, key);
    }
    let first = harness.job();
    assert_eq!((offset(&first), first.expected_next), (5, 5));
    assert!(harness.try_job().is_none());
    harness.complete(&first, Outcome::Handled);
    let second = harness.job();
    assert_eq!((offset(&second), second.expected_next), (9, 6), "what the database has, not the offset before");
    assert_eq!(harness.complete(&second, Outcome::OffsetMoved), Settled::Reopening);
    assert_eq!(harness.engine.take_reopenings(), [harness.id.clone()]);
    assert!(harness.engine.commits(harness.now).is_empty(), "its offset is not this process's to say");
}

#[test]
fn a_late_outcome_of_a_revoked_partition_changes_nothing() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    let job = harness.job();
    let ids = [harness.id.clone()];
    harness.engine.close(&ids);
    assert!(!harness.engine.is_quiet(&ids));
    assert_eq!(harness.engine.remove(&ids)[0].next, 0);
    harness.open(Opening::default());
    harness.add(0, "a");
    assert_eq!(harness.complete(&job, Outcome::Handled), Settled::Late);
    assert_eq!(harness.next_offset(), 0);
    assert_eq!((offset(&harness.job()), harness.engine.running()), (0, 1), "it is processed by the new assignment");
}

#[test]
fn a_closing_partition_hands_out_nothing_and_takes_nothing() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    harness.engine.close(&[harness.id.clone()]);
    harness.add(1, "b");
    assert!(harness.try_job().is_none());
    assert_eq!(harness.engine.rows(), 1);
}

#[test]
fn a_full_partition_is_paused_until_half_is_free() {
    let mut harness = Harness::new(|options| options.records_max = 4);
    for offset in 0..4 {
        harness.add(offset, &offset.to_string());
    }
    assert_eq!(harness.engine.flow().pause, [harness.id.clone()]);
    let jobs = [harness.job(), harness.job(), harness.job()];
    for (done, job) in jobs.iter().enumerate() {
        assert_eq!(harness.engine.flow(), bounds::Flow::default(), "after {done}");
        harness.complete(job, Outcome::Handled);
    }
    assert_eq!(harness.engine.flow().resume, [harness.id.clone()]);
}

#[test]
fn large_records_pause_a_partition_as_well() {
    let mut harness = Harness::new(|options| options.bytes_max = 250);
    harness.add(0, "a");
    harness.add(1, "b");
    assert_eq!(harness.engine.flow().pause, [harness.id.clone()]);
}

#[test]
fn partitions_share_the_bound() {
    let mut harness = Harness::new(|options| options.records_max = 4);
    harness.engine.open(partition("1"), Opening::default(), harness.now);
    harness.add(0, "a");
    harness.add(1, "b");
    assert_eq!(harness.engine.flow().pause, [harness.id.clone()], "half of the bound is its share");
}

#[test]
fn what_one_partition_had_before_others_came_counts_for_all() {
    let mut harness = Harness::new(|options| options.records_max = 4);
    for offset in 0..4 {
        harness.add(offset, &offset.to_string());
    }
    let others = [partition("1"), partition("2")];
    for other in &others {
        harness.engine.open(other.clone(), Opening::default(), harness.now);
        assert!(!harness.engine.is_full(other), "one record of each is read");
        harness.engine.add(record(other, 0, "a"));
        assert!(harness.engine.is_full(other), "the first partition has all that all may have");
    }
    assert_eq!(harness.engine.rows(), 6);
}

#[test]
fn an_offset_is_committed_once_and_again_after_a_refusal() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.engine.commits(harness.now)[0].next, 1);
    assert!(harness.engine.commits(harness.now).is_empty());
    harness.engine.commit_again();
    assert_eq!(harness.engine.commits(harness.now).len(), 1);
}

#[test]
fn a_client_that_lost_a_place_has_every_partition_read_again() {
    let mut harness = Harness::new(|_| {});
    harness.add(0, "a");
    harness.add(1, "b");
    let job = harness.job();
    harness.engine.reopen_all();
    assert!(harness.try_job().is_none() && harness.engine.take_reopenings().is_empty(), "a handler runs");
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.engine.take_reopenings(), [harness.id.clone()]);
    assert!(!harness.engine.is_open(&harness.id));
}
