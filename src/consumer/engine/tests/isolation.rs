//! A record that kills the process.

use super::*;
use crate::consumer::engine::note::Suspects;
use crate::limits::CONSUMER_SUSPECTS_MAX;

/// Another process.
const OTHER: u32 = 0;

fn unclean(ends: u32) -> Opening {
    Opening { note: Note { unclean: ends, suspects: None, writer: OTHER }, ..Opening::default() }
}

/// A record that killed its process this often.
fn suspected(offset: i64, starts: u32) -> Opening {
    group(Suspects { first: offset, rows: 1, starts })
}

fn group(suspects: Suspects) -> Opening {
    Opening { note: Note { unclean: 3, suspects: Some(suspects), writer: OTHER }, ..Opening::default() }
}

/// Gives the group that is wanted its mark.
fn mark(harness: &mut Harness) -> Suspects {
    assert!(harness.try_job().is_none(), "it is not marked");
    let mark = harness.engine.wanted_mark().expect("a mark");
    harness.engine.marked(&mark);
    mark.group
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
    assert!(harness.job().isolated.is_none() && harness.try_job().is_some());
}

#[test]
fn after_two_unclean_ends_records_run_in_groups_that_are_marked() {
    let mut harness = Harness::new(|_| {});
    let other = partition("1");
    harness.engine.open(other.clone(), Opening::default(), harness.now);
    harness.engine.add(record(&other, 7, "x"));
    let running = harness.job();
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "b");
    harness.add(CONSUMER_SUSPECTS_MAX, "c");
    assert_eq!(mark(&mut harness), Suspects { first: 0, rows: CONSUMER_SUSPECTS_MAX, starts: 0 });
    assert!(harness.try_job().is_none(), "something else runs");
    harness.complete(&running, Outcome::Handled);
    let [one, two] = [harness.job(), harness.job()];
    assert_eq!([one.isolated, two.isolated], [Some(0), Some(1)], "a group runs in parallel");
    harness.engine.add(record(&other, 8, "x"));
    assert!(harness.try_job().is_none(), "nothing runs beside a group");
    harness.complete(&two, Outcome::Handled);
    assert!(harness.try_job().is_none() && harness.engine.wanted_mark().is_none(), "a part of it runs");
    harness.complete(&one, Outcome::Handled);
    assert_eq!(mark(&mut harness).first, CONSUMER_SUSPECTS_MAX, "the next group has a mark of its own");
}

#[test]
fn the_records_of_one_key_need_one_mark() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "a");
    mark(&mut harness);
    for offset in [0, 1] {
        assert!(harness.engine.commits(harness.now).is_empty(), "the mark stays");
        let job = harness.job();
        assert_eq!(job.isolated, Some(offset));
        harness.complete(&job, Outcome::Handled);
    }
    let commits = harness.engine.commits(harness.now);
    assert_eq!((commits[0].next, commits[0].note.suspects), (2, None), "the group has ended");
}

#[test]
fn a_record_that_is_tried_again_gets_a_mark_again() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    mark(&mut harness);
    let job = harness.job();
    harness.fail(&job);
    assert_eq!(harness.engine.commits(harness.now)[0].note.suspects, None, "nothing runs");
    harness.advance(1);
    mark(&mut harness);
    assert_eq!(harness.job().isolated, Some(0));
}

#[test]
fn each_record_of_a_group_that_killed_its_process_runs_alone() {
    let mut harness = Harness::new(|_| {});
    harness.open(group(Suspects { first: 1, rows: 2, starts: 0 }));
    for (offset, key) in [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")] {
        harness.add(offset, key);
    }
    let mut groups = Vec::new();
    for jobs in [1, 1, 1, 2] {
        let marked = mark(&mut harness);
        groups.push((marked.first, marked.rows, marked.starts));
        let running: Vec<_> = (0..jobs).map(|_| harness.job()).collect();
        assert!(harness.try_job().is_none(), "{marked:?}");
        for job in running {
            harness.complete(&job, Outcome::Handled);
        }
    }
    assert_eq!(groups, [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, CONSUMER_SUSPECTS_MAX, 0)]);
}

#[test]
fn suspects_that_were_survived_are_none_for_the_next_owner() {
    let mut harness = Harness::new(|_| {});
    harness.open(group(Suspects { first: 0, rows: 2, starts: 0 }));
    harness.add(0, "a");
    harness.add(1, "b");
    mark(&mut harness);
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    let rest = Suspects { first: 1, rows: 1, starts: 0 };
    assert_eq!(harness.engine.commits(harness.now)[0].note.suspects, Some(rest));
    assert_eq!(mark(&mut harness), Suspects { starts: 1, ..rest }, "it has not run alone yet");
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.engine.remove(&[harness.id.clone()])[0].note.to_string(), "");
}

#[test]
fn a_record_that_killed_its_process_alone_is_given_up() {
    let mut harness = Harness::new(|options| options.crashes_max = 2);
    harness.open(suspected(1, 1));
    harness.add(0, "a");
    harness.add(1, "b");
    mark(&mut harness);
    let first = harness.job();
    harness.complete(&first, Outcome::Handled);
    assert_eq!(mark(&mut harness), Suspects { first: 1, rows: 1, starts: 2 }, "the second time");
    // The process dies. The next owner:
    harness.open(suspected(1, 2));
    harness.add(1, "b");
    let job = harness.job();
    assert!(matches!(job.step, Step::GiveUp { .. }), "the handler does not see it");
}

#[test]
fn a_group_that_was_taken_away_while_it_ran_lets_nothing_run_beside_it() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "b");
    mark(&mut harness);
    let job = harness.job();
    harness.engine.remove(&[harness.id.clone()]);
    harness.open(Opening::default());
    harness.add(0, "a");
    assert!(harness.try_job().is_none());
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.job().isolated, None);
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
    assert_eq!(mark(&mut harness).first, 1, "the next one");
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
    mark(&mut harness);
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    let jobs = [harness.job(), harness.job()];
    assert_eq!(
        jobs.each_ref().map(|job| job.isolated),
        [None, None],
        "as many as may have been in memory are survived"
    );
    let note = harness.engine.commits(harness.now)[0].note;
    assert_eq!((note.unclean, note.suspects), (1, None));
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
    assert!(harness.job().isolated.is_none());
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
    mark(&mut harness);
    let job = harness.job();
    harness.advance(61);
    harness.engine.commits(harness.now);
    harness.complete(&job, Outcome::Handled);
    harness.add(1, "b");
    harness.add(2, "c");
    harness.engine.commits(harness.now);
    assert_eq!([harness.job(), harness.job()].map(|job| job.isolated), [None, None]);
}
