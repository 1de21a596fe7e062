//! Several records in one transaction.

use super::*;
use crate::consumer::options::KeyHook;
use crate::message::MessageId;
use crate::transport::header;

/// Up to four are in one, and there is one worker.
fn batches(change: impl FnOnce(&mut Options)) -> Harness {
    Harness::new(|options| {
        options.batch_records_max = 4;
        options.workers = 1;
        change(options);
    })
}

fn offsets(jobs: &[Job]) -> Vec<i64> {
    jobs.iter().map(offset).collect()
}

#[test]
fn by_default_each_record_has_its_own_transaction() {
    let mut harness = Harness::new(|_| {});
    (0..10).for_each(|offset| harness.add(offset, "a"));
    assert_eq!(offsets(&harness.jobs()), [0]);
}

#[test]
fn records_of_a_key_are_in_one_batch_in_their_order() {
    let mut harness = batches(|_| {});
    (0..6).for_each(|offset| harness.add(offset, "a"));
    let jobs = harness.jobs();
    assert_eq!(offsets(&jobs), [0, 1, 2, 3]);
    assert_eq!(harness.engine.running(), 4);
    assert!(harness.jobs().is_empty(), "the key's later records wait");
    harness.complete_all(&jobs, &Outcome::Handled);
    assert_eq!((harness.next_offset(), harness.engine.running()), (4, 0));
    assert_eq!(offsets(&harness.jobs()), [4, 5]);
    assert!(harness.jobs().is_empty(), "no record is handed out twice");
}

#[test]
fn no_record_waits_in_a_batch_that_another_worker_could_run() {
    let mut harness = batches(|options| options.workers = 3);
    (0..6).for_each(|offset| harness.add(offset, &offset.to_string()));
    let mut taken = || offsets(&harness.jobs());
    assert_eq!([taken(), taken(), taken(), taken()], [vec![0, 1, 2, 3], vec![4], vec![5], vec![]]);
}

#[test]
fn with_offsets_a_batch_has_records_of_one_partition_only() {
    let mut harness = batches(|options| options.progress = Progress::InboxAndOffsets);
    let other = partition("1");
    harness.open_other(other.clone(), Opening::default());
    for (offset, key) in [(0, "a"), (1, "b"), (5, "c")] {
        harness.add(offset, key);
        harness.engine.add(record(&other, offset, key));
    }
    let jobs = harness.jobs();
    assert_eq!((offsets(&jobs), jobs[0].expected_next), (vec![0, 1, 5], 0));
    let theirs = harness.jobs();
    assert!(theirs.len() == 3 && theirs.iter().all(|job| job.token.partition == other));
}

#[test]
fn if_one_fails_each_runs_alone_and_only_the_one_that_fails_spends_an_attempt() {
    let mut harness = batches(|_| {});
    for (offset, key) in [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "b")] {
        harness.add(offset, key);
    }
    let jobs = harness.jobs();
    assert_eq!(offsets(&jobs), [0, 1, 2, 3]);
    harness.complete_all(&jobs, &Outcome::BatchFailed);
    let (first, second) = (harness.jobs(), harness.jobs());
    assert_eq!((offsets(&first), offsets(&second)), (vec![2], vec![0]), "one of each key");
    assert_eq!((first[0].attempt, second[0].attempt), (1, 1));
    harness.complete(&second[0], Outcome::Handled);
    let third = harness.jobs();
    assert_eq!(offsets(&third), [1], "it was in that batch");
    harness.complete(&third[0], Outcome::Handled);
    harness.fail(&first[0]);
    assert!(harness.jobs().is_empty());
    harness.advance(1);
    let again = harness.jobs();
    assert_eq!((offsets(&again), again[0].attempt), (vec![2], 2));
    harness.complete(&again[0], Outcome::Handled);
    let last = harness.jobs();
    assert_eq!(offsets(&last), [3]);
    harness.complete(&last[0], Outcome::Handled);
    (5..7).for_each(|offset| harness.add(offset, "b"));
    assert_eq!(offsets(&harness.jobs()), [4, 5, 6], "it was in none yet");
}

#[test]
fn what_has_failed_or_may_have_to_be_parked_is_in_none() {
    let mut harness = batches(|_| {});
    let parked_keys = HashSet::from([Arc::from(*b"parked")]);
    harness.open(Opening { parked_keys, ..Opening::default() });
    harness.add(0, "failing");
    let failing = harness.jobs();
    for (offset, key) in [(1, "failing"), (2, "parked"), (3, "a"), (4, "parked"), (5, "b")] {
        harness.add(offset, key);
    }
    harness.fail(&failing[0]);
    let mut taken = || offsets(&harness.jobs());
    assert_eq!([taken(), taken(), taken()], [vec![2], vec![3, 5], vec![]]);
    harness.advance(1);
    assert_eq!(offsets(&harness.jobs()), [0]);
}

#[test]
fn another_producers_record_is_in_none_where_the_application_names_it() {
    let hook = || Some(KeyHook(Arc::new(|_: &Record| None)));
    let mut harness = batches(|options| options.inbox_key = hook());
    harness.add(0, "a");
    let mut ours = record(&harness.id, 1, "b");
    ours.headers.push(header::MESSAGE_ID, MessageId::new().to_string());
    harness.engine.add(ours.clone());
    harness.add(2, "c");
    harness.engine.add(Record { offset: 3, ..ours });
    let mut taken = || offsets(&harness.jobs());
    assert_eq!([taken(), taken(), taken()], [vec![0], vec![1, 3], vec![2]]);
}

#[test]
fn records_that_seem_to_be_copies_are_in_none() {
    let mut harness = batches(|_| {});
    (0..9).for_each(|offset| harness.add(offset, "a"));
    let jobs = harness.jobs();
    harness.complete_all(&jobs, &Outcome::BatchFailed);
    let first = harness.jobs();
    harness.complete(&first[0], Outcome::Duplicate { is_key_parked: false, ahead: Copies::default() });
    let second = harness.jobs();
    assert_eq!((offsets(&second), second[0].ahead.len()), (vec![1], 7), "it looks up those behind it");
}

#[test]
fn a_batch_takes_one_turn() {
    let mut harness = batches(|options| options.workers = 3);
    (0..40).for_each(|offset| harness.add(offset, "a"));
    harness.add(40, "b");
    for _ in 0..9 {
        let jobs = harness.jobs();
        harness.complete_all(&jobs, &Outcome::Handled);
        assert!(harness.engine.ready.len() <= 2, "{:?}", harness.engine.ready);
    }
    assert_eq!(harness.next_offset(), 32, "the other key had its turn");
    let jobs = harness.jobs();
    harness.complete_all(&jobs, &Outcome::BatchFailed);
    assert_eq!(harness.engine.ready.len(), 1);
}

#[test]
fn an_outage_spends_nothing_and_they_are_in_one_again() {
    let mut harness = batches(|_| {});
    (0..3).for_each(|offset| harness.add(offset, "a"));
    let jobs = harness.jobs();
    harness.engine.database_is_away(harness.now);
    harness.complete_all(&jobs, &Outcome::DatabaseAway("away".to_owned()));
    assert!(harness.jobs().is_empty());
    harness.engine.database_is_back();
    let again = harness.jobs();
    assert_eq!((offsets(&again), again[0].attempt), (vec![0, 1, 2], 1));
    assert!(harness.jobs().is_empty());
}

#[test]
fn a_replay_waits_behind_the_records_that_run() {
    let mut harness = batches(|options| options.progress = Progress::Offsets);
    (0..3).for_each(|offset| harness.add(offset, "a"));
    let jobs = harness.jobs();
    harness.engine.replay(&harness.id.clone(), vec![(QueueKey::Whole, Replay::Row(7))]);
    harness.complete_all(&jobs, &Outcome::Handled);
    assert_eq!(harness.next_offset(), 3);
    let replay = harness.jobs();
    assert!(matches!(replay[..], [Job { work: Work::Replay(Replay::Row(7)), .. }]), "{replay:?}");
}
