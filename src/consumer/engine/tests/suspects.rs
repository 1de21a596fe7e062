//! Records that may have killed the process of an earlier owner.

use super::isolation::{died, mark, mark_group, note, noted, suspected};
use super::*;
use crate::limits::CONSUMER_SUSPECTS_MAX;

#[test]
fn each_record_of_a_group_that_killed_its_process_runs_alone() {
    let mut harness = Harness::new(|_| {});
    harness.open(died(Group { first: 1, rows: 2, starts: 0 }));
    for (offset, key) in [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")] {
        harness.add(offset, key);
    }
    let mut groups = Vec::new();
    for jobs in [1, 1, 1, 2] {
        let group = mark_group(&mut harness);
        groups.push((group.first, group.rows, group.starts));
        let running: Vec<_> = (0..jobs).map(|_| harness.job()).collect();
        assert!(harness.try_job().is_none(), "{group:?}");
        for job in running {
            harness.complete(&job, Outcome::Handled);
        }
    }
    assert_eq!(groups, [(0, 1, 0), (1, 1, 1), (2, 1, 1), (3, CONSUMER_SUSPECTS_MAX, 0)]);
}

#[test]
fn suspects_that_were_survived_are_none_for_the_next_owner() {
    let mut harness = Harness::new(|_| {});
    harness.open(died(Group { first: 0, rows: 2, starts: 0 }));
    harness.add(0, "a");
    harness.add(1, "b");
    mark_group(&mut harness);
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    let rest = Group { first: 1, rows: 1, starts: 0 };
    assert!(harness.try_job().is_none());
    let wanted = harness.engine.wanted_mark().expect("a mark");
    assert_eq!((&*wanted.commits[0].note.suspects, wanted.commits[0].next), (&[rest][..], 1));
    assert_eq!(mark_group(&mut harness), Group { starts: 1, ..rest }, "it has not run alone yet");
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert_eq!(harness.remove()[0].note.to_string(), "");
}

#[test]
fn a_record_that_killed_its_process_alone_has_failed_for_good() {
    let mut harness = Harness::new(|options| options.crashes_max = 2);
    harness.open(suspected(1, 1));
    harness.add(0, "a");
    harness.add(1, "b");
    mark_group(&mut harness);
    let first = harness.job();
    harness.complete(&first, Outcome::Handled);
    assert_eq!(mark_group(&mut harness), Group { first: 1, rows: 1, starts: 2 }, "the second time");
    // The process dies. The next owner:
    harness.open(suspected(1, 2));
    harness.add(1, "b");
    let job = harness.job();
    assert!(matches!(job.step, Step::GiveUp { .. }), "the handler does not see it");
    harness.complete(&job, Outcome::DatabaseAway("away".to_owned()));
    let note = harness.remove()[0].note.clone();
    assert_eq!(note.suspects, [Group { first: 1, rows: 1, starts: 2 }], "it is not parked yet");
}

#[test]
fn with_blocked_keys_it_stays_where_it_is_for_every_later_owner() {
    let mut harness = Harness::new(|options| {
        options.crashes_max = 2;
        options.on_failure = OnFailure::BlockKey;
        options.records_max = 1;
    });
    harness.open(suspected(0, 2));
    harness.add(0, "a");
    harness.add(1, "b");
    assert_eq!(mark_group(&mut harness).first, 1, "the next one");
    let wanted = harness.remove();
    let died_by_chance = Note { running: Some(Group { first: 1, rows: 31, starts: 0 }), ..wanted[0].note.clone() };
    harness.open(noted(Note { unclean: 1, ..died_by_chance }));
    harness.add(0, "a");
    harness.add(1, "b");
    assert_eq!(mark_group(&mut harness), Group { first: 1, rows: 1, starts: 1 });
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert!(harness.try_job().is_none());
    assert_eq!(harness.next_offset(), 0);
    let ended = harness.remove().remove(0);
    assert!(ended.note.suspects.contains(&Group { first: 0, rows: 1, starts: 2 }), "also after a clean end");
}

#[test]
fn a_blocked_record_does_not_keep_the_others_in_groups() {
    let mut harness = Harness::new(|options| {
        options.on_failure = OnFailure::BlockKey;
        options.records_max = 1;
    });
    // It was found in a group of which others were not read yet.
    let suspects = vec![Group { first: 0, rows: 4, starts: 0 }];
    let running = Some(Group { first: 0, rows: 1, starts: 3 });
    harness.open(noted(Note { unclean: 3, suspects, running, ..Note::default() }));
    for (offset, key) in [(0, "a"), (1, "a"), (2, "b"), (5, "c"), (6, "d")] {
        harness.add(offset, key);
    }
    assert_eq!(mark_group(&mut harness), Group { first: 2, rows: 1, starts: 1 });
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert_eq!(mark(&mut harness), None, "the one that is blocked never runs, nor what is behind it");
    assert_eq!([offset(&harness.job()), offset(&harness.job())], [5, 6]);
}

#[test]
fn a_record_that_was_survived_is_no_suspect_and_the_others_run_in_parallel_again() {
    let mut harness = Harness::new(|options| options.records_max = 1);
    harness.open(suspected(0, 1));
    harness.add(0, "a");
    harness.add(1, "b");
    harness.add(2, "c");
    mark_group(&mut harness);
    let job = harness.job();
    harness.complete(&job, Outcome::Handled);
    assert_eq!(mark(&mut harness), None, "as many as may have been in memory are survived");
    let note = note(&mut harness);
    assert_eq!((note.unclean, &*note.suspects), (1, &[][..]));
    assert_eq!([offset(&harness.job()), offset(&harness.job())], [1, 2]);
}
