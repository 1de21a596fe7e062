//! Random outcomes, revocations and restarts.

use std::collections::BTreeMap;

use super::*;

/// What a database with an inbox would hold.
#[derive(Default)]
struct Ledger {
    effects: BTreeMap<i64, u32>,
    order: BTreeMap<String, Vec<i64>>,
}

impl Ledger {
    fn add(&mut self, offset: i64) {
        *self.effects.entry(offset).or_default() += 1;
        self.order.entry(key_of(offset)).or_default().push(offset);
    }
}

const RECORDS: i64 = 60;

fn key_of(offset: i64) -> String {
    ["a", "b", "c", "d", ""][usize::try_from(offset % 5).expect("small")].to_owned()
}

#[test]
fn each_record_is_processed_once_and_each_key_in_order() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let progress = [Progress::Inbox, Progress::InboxAndOffsets][random.usize(0..2)];
        run(&mut random, progress, seed);
    }
}

fn run(random: &mut fastrand::Rng, progress: Progress, seed: u64) {
    let mut harness = Harness::new(|options| {
        options.progress = progress;
        options.attempts_max = u32::MAX;
        options.records_max = 16;
        options.batch_records_max = random.usize(1..5);
        options.workers = random.usize(1..4);
    });
    let (mut ledger, mut committed, mut read) = (Ledger::default(), 0, 0);
    let mut running: Vec<Vec<Job>> = Vec::new();
    for step in 0.. {
        assert!(step < 20_000, "seed {seed}: it does not end");
        if harness.next_offset() == RECORDS {
            break;
        }
        match random.u8(0..10) {
            0..=2 if read < RECORDS => {
                harness.add(read, &key_of(read));
                read += 1;
            }
            3..=5 => running.extend(Some(harness.jobs()).filter(|jobs| !jobs.is_empty())),
            6..=8 if !running.is_empty() => {
                let jobs = running.swap_remove(random.usize(0..running.len()));
                let outcome = match &jobs[..] {
                    [job] => outcome(random, job, &mut ledger),
                    jobs => outcome_of_all(random, jobs, &mut ledger),
                };
                if matches!(outcome, Outcome::DatabaseAway(_)) {
                    harness.engine.database_is_away(harness.now);
                }
                harness.complete_all(&jobs, &outcome);
            }
            9 => {
                harness.advance(1);
                harness.engine.database_is_back();
                if let Some(mark) = harness.engine.take_mark() {
                    harness.marked(&mark);
                }
            }
            _ if random.u8(0..40) == 0 => {
                // Revoked, and assigned again; what runs goes on, as with a zombie.
                let commit = harness.remove().remove(0);
                committed = commit.next.max(committed);
                read = commit.next;
                // By the same process, or by another one after several were killed.
                let running = Some(Group { first: commit.next, rows: 5, starts: 0 }).filter(|_| random.bool());
                let crashed = Note { unclean: 2, running, writer: 0, ..commit.note.clone() };
                let note = if random.bool() { commit.note } else { crashed };
                harness.open(Opening { start: commit.next, note, ..Opening::default() });
            }
            _ => {}
        }
        let next = harness.next_offset();
        assert!((0..next).all(|offset| ledger.effects.contains_key(&offset)), "seed {seed}: {next} passes one");
    }
    assert!(ledger.effects.values().all(|effects| *effects == 1), "seed {seed}: {:?}", ledger.effects);
    for (key, offsets) in ledger.order {
        assert!(offsets.is_sorted(), "seed {seed}: {key}: {offsets:?}");
    }
}

/// All of them, or none.
fn outcome_of_all(random: &mut fastrand::Rng, jobs: &[Job], ledger: &mut Ledger) -> Outcome {
    match random.u8(0..6) {
        0 => Outcome::BatchFailed,
        1 if random.u8(0..4) == 0 => Outcome::DatabaseAway("away".to_owned()),
        _ if jobs.iter().any(|job| ledger.effects.contains_key(&offset(job))) => Outcome::BatchFailed,
        _ => {
            jobs.iter().for_each(|job| ledger.add(offset(job)));
            Outcome::Handled
        }
    }
}

fn outcome(random: &mut fastrand::Rng, job: &Job, ledger: &mut Ledger) -> Outcome {
    match random.u8(0..6) {
        0 => Outcome::Failed(HandlerError::retriable("refused")),
        1 => Outcome::Conflict,
        2 if random.u8(0..4) == 0 => Outcome::DatabaseAway("away".to_owned()),
        _ if ledger.effects.contains_key(&offset(job)) => {
            let offsets = job.ahead.iter().map(|record| record.offset);
            let offsets = offsets.filter(|offset| ledger.effects.contains_key(offset)).collect();
            Outcome::Duplicate { is_key_parked: false, ahead: Copies { offsets, parked_keys: HashSet::new() } }
        }
        _ => {
            ledger.add(offset(job));
            Outcome::Handled
        }
    }
}
