//! A record that kills the process.

use super::*;
use crate::consumer::engine::note::Alone;

/// Another process.
const OTHER: u32 = 0;

fn unclean(ends: u32) -> Opening {
    Opening { note: Note { unclean: ends, alone: None, writer: OTHER }, ..Opening::default() }
}

fn suspected(offset: i64, starts: u32) -> Opening {
    Opening { note: Note { unclean: 3, alone: Some(Alone { offset, starts }), writer: OTHER }, ..Opening::default() }
}

#[test]
fn an_owner_leaves_a_trace_until_it_ends_cleanly() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(1));
    assert_eq!(harness.engine.commits_of(&harness.id)[0].note.unclean, 2);
    assert_eq!(harness.engine.remove(&[harness.id.clone()])[0].note.to_string(), "");
}

#[test]
fn one_unclean_end_changes_nothing() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(1));
    harness.add(0, "a");
    harness.add(1, "b");
    assert!(harness.job().alone.is_none() && harness.try_job().is_some());
}

#[test]
fn after_two_unclean_ends_records_run_alone_once_they_are_marked() {
    let mut harness = Harness::new(|_| {});
    let other = partition("1");
    harness.engine.open(other.clone(), Opening::default(), harness.now);
    harness.engine.add(record(&other, 7, "x"));
    let running = harness.job();
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "b");
    assert!(harness.try_job().is_none(), "it is not marked");
    let mark = harness.engine.wanted_mark().expect("a mark");
    assert_eq!((mark.commit.next, mark.alone), (0, Alone { offset: 0, starts: 1 }));
    harness.engine.marked(&mark);
    assert!(harness.try_job().is_none(), "something else runs");
    harness.complete(&running, Outcome::Handled);
    let alone = harness.job();
    assert_eq!(alone.alone, Some(0));
    harness.engine.add(record(&other, 8, "x"));
    assert!(harness.try_job().is_none(), "nothing runs beside it");
    harness.complete(&alone, Outcome::Handled);
    let next = harness.engine.next(harness.now);
    assert!(matches!(next, Next::Wait(_)) && harness.engine.wanted_mark().is_some(), "the next one needs its own mark");
}

#[test]
fn a_record_that_killed_its_process_alone_is_given_up() {
    let mut harness = Harness::new(|options| options.crashes_max = 2);
    harness.open(suspected(1, 1));
    harness.add(0, "a");
    harness.add(1, "b");
    harness.try_job();
    let mark = harness.engine.wanted_mark().expect("a mark");
    harness.engine.marked(&mark);
    let first = harness.job();
    harness.complete(&first, Outcome::Handled);
    harness.try_job();
    let mark = harness.engine.wanted_mark().expect("a mark");
    assert_eq!(mark.alone, Alone { offset: 1, starts: 2 }, "the second time");
    // The process dies. The next owner:
    harness.open(suspected(1, 2));
    harness.add(1, "b");
    let job = harness.job();
    assert!(matches!(job.step, Step::GiveUp { .. }), "the handler does not see it");
}

#[test]
fn with_held_keys_it_stays_where_it_is() {
    let mut harness = Harness::new(|options| {
        options.crashes_max = 2;
        options.on_failure = OnFailure::BlockKey;
    });
    harness.open(suspected(0, 2));
    harness.add(0, "a");
    harness.add(1, "b");
    assert!(harness.try_job().is_none());
    let mark = harness.engine.wanted_mark().expect("a mark of the next one");
    assert_eq!(mark.alone.offset, 1);
    harness.engine.marked(&mark);
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert!(harness.try_job().is_none());
    assert_eq!(harness.next_offset(), 0);
}

#[test]
fn a_record_that_was_survived_is_no_suspect_and_the_others_run_in_parallel_again() {
    let mut harness = Harness::new(|options| options.rows_max = 1);
    harness.open(suspected(0, 1));
    harness.add(0, "a");
    harness.add(1, "b");
    harness.add(2, "c");
    harness.try_job();
    let mark = harness.engine.wanted_mark().expect("a mark");
    harness.engine.marked(&mark);
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    let jobs = [harness.job(), harness.job()];
    assert_eq!(jobs.each_ref().map(|job| job.alone), [None, None], "as many as may have been in memory are survived");
    let note = harness.engine.commits(harness.now)[0].note;
    assert_eq!((note.unclean, note.alone), (1, None));
}

#[test]
fn a_process_that_lost_its_session_and_gets_the_partition_back_did_not_crash() {
    let mut harness = Harness::new(|_| {});
    for _ in 0..5 {
        harness.add(0, "a");
        let note = harness.engine.commits_of(&harness.id)[0].note;
        assert_eq!(note.unclean, 1, "the second time it would be suspected");
        // Lost: nothing is committed at its end.
        harness.engine.remove(&[harness.id.clone()]);
        harness.open(Opening { note, ..Opening::default() });
    }
    harness.add(0, "a");
    assert!(harness.job().alone.is_none());
}

#[test]
fn the_beginning_is_survived_once_its_records_are_done_and_its_time_is_over() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(1));
    harness.add(0, "a");
    let job = harness.job();
    harness.advance(61);
    assert_eq!(harness.engine.commits(harness.now)[0].note.unclean, 2, "its first record still runs");
    harness.add(1, "b");
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.engine.commits(harness.now)[0].note.unclean, 1, "what came later counts anew");
    assert!(harness.engine.commits(harness.now).is_empty());
}

#[test]
fn after_its_time_a_suspected_partition_runs_in_parallel_again() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.try_job();
    let mark = harness.engine.wanted_mark().expect("a mark");
    harness.engine.marked(&mark);
    let job = harness.job();
    harness.advance(61);
    harness.engine.commits(harness.now);
    harness.complete(&job, Outcome::Handled);
    harness.add(1, "b");
    harness.add(2, "c");
    harness.engine.commits(harness.now);
    assert_eq!([harness.job(), harness.job()].map(|job| job.alone), [None, None]);
}
