//! A record that kills the process.

use super::*;
use crate::limits::CONSUMER_SUSPECTS_MAX;

/// Another process.
const OTHER: u32 = 0;

pub(super) fn noted(note: Note) -> Opening {
    Opening { note: Note { writer: OTHER, ..note }, ..Opening::default() }
}

fn unclean(ends: u32) -> Opening {
    noted(Note { unclean: ends, ..Note::default() })
}

/// A record that killed its process this often.
pub(super) fn suspected(offset: i64, starts: u32) -> Opening {
    died(Group { first: offset, rows: 1, starts })
}

/// The process was killed while this ran.
pub(super) fn died(group: Group) -> Opening {
    noted(Note { unclean: 3, running: Some(group), ..Note::default() })
}

/// Tells the broker what it is to know.
pub(super) fn mark(harness: &mut Harness) -> Option<Group> {
    assert!(harness.try_job().is_none(), "it is not marked");
    let mark = harness.engine.take_mark().expect("a mark");
    harness.marked(&mark);
    mark.group.map(|owned| owned.group)
}

/// The group that gets its mark.
pub(super) fn mark_group(harness: &mut Harness) -> Group {
    mark(harness).expect("a group")
}

pub(super) fn note(harness: &mut Harness) -> Note {
    harness.commits()[0].note.clone()
}

#[test]
fn an_owner_leaves_a_trace_until_it_ends_cleanly() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(1));
    assert_eq!(harness.engine.commits_of(&harness.id)[0].note.unclean, 2);
    assert_eq!(harness.remove()[0].note.unclean, 1, "it has run nothing, and leaves what it found");
    harness.open(unclean(1));
    harness.add(0, "a");
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.remove()[0].note.to_string(), "");
}

#[test]
fn one_unclean_end_changes_nothing() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(1));
    harness.add(0, "a");
    harness.add(1, "b");
    assert_eq!([offset(&harness.job()), offset(&harness.job())], [0, 1]);
}

#[test]
fn after_two_unclean_ends_records_run_in_groups_that_are_marked() {
    let mut harness = Harness::new(|_| {});
    let other = partition("1");
    harness.open_other(other.clone(), Opening::default());
    harness.engine.add(record(&other, 7, "x"));
    let running = harness.job();
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "b");
    harness.add(CONSUMER_SUSPECTS_MAX, "c");
    assert!(harness.try_job().is_none() && harness.engine.wanted_mark().is_none(), "something else runs");
    harness.complete(&running, Outcome::Handled);
    assert_eq!(mark_group(&mut harness), Group { first: 0, rows: CONSUMER_SUSPECTS_MAX, starts: 0 });
    let [one, two] = [harness.job(), harness.job()];
    assert_eq!([offset(&one), offset(&two)], [0, 1], "a group runs in parallel");
    harness.engine.add(record(&other, 8, "x"));
    assert!(harness.try_job().is_none(), "nothing runs beside a group");
    harness.complete(&two, Outcome::Handled);
    assert!(harness.try_job().is_none() && harness.engine.wanted_mark().is_none(), "a part of it runs");
    harness.complete(&one, Outcome::Handled);
    assert_eq!(mark_group(&mut harness).first, CONSUMER_SUSPECTS_MAX, "the next group has a mark of its own");
}

#[test]
fn the_records_of_one_key_need_one_mark() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "a");
    mark_group(&mut harness);
    for expected in [0, 1] {
        assert!(harness.commits().is_empty(), "the mark stays");
        let job = harness.job();
        assert_eq!(offset(&job), expected);
        harness.complete(&job, Outcome::Handled);
    }
    assert_eq!(mark(&mut harness), None, "the broker learns that the group has ended");
    let commits = harness.commits();
    assert_eq!((commits[0].next, commits[0].note.running), (2, None));
}

#[test]
fn nothing_else_runs_before_the_broker_knows_that_a_group_has_ended() {
    let mut harness = Harness::new(|_| {});
    let other = partition("1");
    harness.open_other(other.clone(), Opening::default());
    harness.open(unclean(2));
    harness.add(0, "a");
    mark_group(&mut harness);
    let job = harness.job();
    harness.fail(&job);
    harness.engine.add(record(&other, 7, "x"));
    assert_eq!(mark(&mut harness), None);
    assert_eq!(harness.job().token.partition, other);
}

#[test]
fn two_partitions_never_have_a_mark_at_a_time() {
    let mut harness = Harness::new(|_| {});
    let other = partition("1");
    harness.open_other(other.clone(), suspected(7, 2));
    harness.open(suspected(0, 2));
    harness.engine.add(record(&other, 7, "x"));
    assert!(harness.try_job().is_none());
    let first = harness.engine.take_mark().expect("a mark");
    harness.add(0, "a");
    assert!(harness.try_job().is_none());
    harness.marked(&first);
    let mut begun = HashSet::new();
    for _ in 0..10 {
        if let Some(job) = harness.try_job() {
            begun.insert(job.token.partition.clone());
            harness.complete(&job, Outcome::Handled);
        } else if let Some(mark) = harness.engine.take_mark() {
            let noted = mark.commits.iter().filter(|commit| commit.note.running.is_some()).count();
            assert_eq!(noted, usize::from(mark.group.is_some()), "{mark:?}");
            harness.marked(&mark);
        }
    }
    assert_eq!(begun.len(), 2);
}

#[test]
fn nothing_begins_while_the_broker_is_told() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    assert!(harness.try_job().is_none());
    let told = harness.engine.take_mark().expect("a mark");
    harness.engine.replay(&harness.id.clone(), vec![(QueueKey::Keyless, Replay::Row(5))]);
    assert!(harness.try_job().is_none(), "the broker may know the group already, or not");
    assert_eq!(harness.engine.take_mark().as_ref(), Some(&told), "a commit that failed is repeated");
    harness.marked(&told);
    let job = harness.job();
    assert_eq!(offset(&job), 0);
    assert!(harness.try_job().is_none(), "the replay waits");
    harness.complete(&job, Outcome::Handled);
    assert_eq!(mark(&mut harness), None);
    assert!(matches!(harness.job().work, Work::Replay(_)));
}

#[test]
fn a_partition_that_is_read_again_loses_its_mark_first() {
    let mut harness = Harness::new(|_| {});
    harness.open(suspected(0, 2));
    harness.add(0, "a");
    mark_group(&mut harness);
    let job = harness.job();
    harness.complete(&job, Outcome::OffsetMoved);
    assert!(harness.engine.take_reopenings().is_empty(), "its mark is at the broker");
    assert_eq!(mark(&mut harness), None);
    assert_eq!(harness.engine.take_reopenings(), [harness.id.clone()]);
}

#[test]
fn in_an_outage_nothing_is_marked() {
    let mut harness = Harness::new(|_| {});
    harness.open(suspected(0, 1));
    harness.add(0, "a");
    assert_eq!(mark_group(&mut harness).starts, 2);
    harness.engine.database_is_away(harness.now);
    assert_eq!(mark(&mut harness), None);
    assert!(harness.engine.wanted_mark().is_none());
    let note = note(&mut harness);
    assert_eq!((note.running, note.suspects[0].starts), (None, 1), "it did not run");
    harness.engine.database_is_back();
    assert_eq!(mark_group(&mut harness).starts, 2);
    let job = harness.job();
    harness.complete(&job, Outcome::Postponed("locked".to_owned()));
    harness.advance(1);
    let job = harness.job();
    assert_eq!(offset(&job), 0, "its handler did not run, so the mark is still right");
    harness.fail(&job);
    harness.advance(1);
    assert_eq!(mark_group(&mut harness).starts, 0, "it was survived");
}

#[test]
fn a_group_that_was_taken_away_while_it_ran_lets_nothing_run_beside_it() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    harness.add(1, "b");
    mark_group(&mut harness);
    let job = harness.job();
    harness.remove();
    harness.open(Opening::default());
    harness.add(0, "a");
    assert!(harness.try_job().is_none());
    harness.complete(&job, Outcome::Handled);
    assert_eq!(offset(&harness.job()), 0);
    assert!(harness.engine.wanted_mark().is_none());
}

#[test]
fn duplicates_are_not_what_was_survived() {
    let mut harness = Harness::new(|options| options.records_max = 1);
    harness.open(unclean(2));
    for number in 0..3 {
        harness.add(number, "a");
    }
    mark_group(&mut harness);
    for _ in 0..2 {
        let job = harness.job();
        harness.complete(&job, Outcome::Duplicate { is_key_parked: false, ahead: Copies::default() });
    }
    let job = harness.job();
    assert!(harness.commits().is_empty(), "the group still has its mark");
    harness.complete(&job, Outcome::Handled);
    assert_eq!(mark(&mut harness), None);
    assert_eq!(note(&mut harness).unclean, 1);
}

#[test]
fn a_group_ends_before_records_run_in_parallel_again() {
    let mut harness = Harness::new(|options| options.records_max = 1);
    harness.open(unclean(2));
    for (number, key) in [(0, "a"), (1, "b"), (2, "c")] {
        harness.add(number, key);
    }
    mark_group(&mut harness);
    let [one, two] = [harness.job(), harness.job()];
    harness.complete(&one, Outcome::Handled);
    assert!(harness.commits().is_empty(), "a part of it runs");
    harness.complete(&two, Outcome::Handled);
    assert_eq!(mark(&mut harness), None);
    assert_eq!(offset(&harness.job()), 2);
}

#[test]
fn a_process_that_lost_its_session_and_gets_the_partition_back_did_not_crash() {
    let mut harness = Harness::new(|_| {});
    for _ in 0..5 {
        harness.add(0, "a");
        let note = harness.engine.commits_of(&harness.id)[0].note.clone();
        assert_eq!(note.unclean, 1, "the second time it would be suspected");
        // Lost: nothing is committed at its end.
        harness.remove();
        harness.open(Opening { note, ..Opening::default() });
    }
    harness.add(0, "a");
    harness.job();
}

#[test]
fn the_beginning_is_survived_once_its_records_are_done_and_its_time_is_over() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(1));
    harness.add(0, "a");
    let job = harness.job();
    harness.advance(61);
    assert_eq!(note(&mut harness).unclean, 2, "its first record still runs");
    harness.add(1, "b");
    harness.complete(&job, Outcome::Handled);
    assert_eq!(note(&mut harness).unclean, 1, "what came later counts anew");
    assert!(harness.commits().is_empty());
}

#[test]
fn after_its_time_a_suspected_partition_runs_in_parallel_again() {
    let mut harness = Harness::new(|_| {});
    harness.open(unclean(2));
    harness.add(0, "a");
    mark_group(&mut harness);
    let job = harness.job();
    harness.advance(61);
    harness.commits();
    harness.complete(&job, Outcome::Handled);
    harness.commits();
    harness.add(1, "b");
    harness.add(2, "c");
    assert_eq!(mark(&mut harness), None);
    assert_eq!([offset(&harness.job()), offset(&harness.job())], [1, 2]);
}
