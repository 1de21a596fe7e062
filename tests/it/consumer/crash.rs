//! kill -9 at each step of a record, on each database; and a record that kills its process.

use serde::{Deserialize, Serialize};

use diesel_outbox::consumer::{HandlerError, OnFailure, Progress, Record};
use diesel_outbox::inbox::InboxKey;

use super::bed::{Bed, Broker, DEADLINE, On, Place, number, numbers, wait_until};
use crate::faults::child::{ShopProcess, arm_failpoint};

const CONFIG: &str = "OUTBOX_TEST_CONSUMER";
const RECORDS: i32 = 40;

/// What a consumer's process does.
#[derive(Debug, Serialize, Deserialize)]
struct Script {
    place: Place,
    has_offsets: bool,
    /// Whether records run in batches.
    batches: bool,
    /// The step at which it is killed, and at which hit of it.
    crash_at: Option<(String, usize)>,
    /// The record that kills it, and whether as the inbox's key is looked for.
    poison: Option<i32>,
    in_key: bool,
    /// The record that fails for good.
    refused: Option<i32>,
    /// Whether it goes on until nothing is released any more.
    replays: bool,
}

impl Script {
    /// Without any mishap.
    fn of(place: Place) -> Self {
        let (has_offsets, batches, in_key, replays) = (false, false, false, false);
        Self { place, has_offsets, batches, crash_at: None, poison: None, in_key, refused: None, replays }
    }

    fn spawn(&self) -> ShopProcess {
        ShopProcess::spawn("consumer::crash::a_consumers_process_ends_by_itself", CONFIG, self)
    }
}

/// A process of its own, where the environment says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumers_process_ends_by_itself() {
    if let Ok(script) = std::env::var(CONFIG) {
        return run(serde_json::from_str(&script).expect("a script"));
    }
    let Some(bed) = Bed::on_postgres(2).await else { return };
    bed.place.send(numbers(0..RECORDS));
    assert!(Script::of(bed.place.clone()).spawn().wait_for_exit().await.success());
    bed.place.assert_once_in_order(RECORDS);
}

fn run(script: Script) {
    let Script { place, has_offsets, batches, crash_at, poison, in_key, refused, replays } = script;
    if let Some((step, nth_hit)) = crash_at {
        arm_failpoint(step, nth_hit, None);
    }
    let progress = if has_offsets { Progress::Offsets } else { Progress::Inbox };
    let handle = move |record: &Record| {
        if poison == Some(number(record)) && !in_key {
            std::process::abort();
        }
        match refused == Some(number(record)) {
            true => Err(HandlerError::permanent("refused")),
            false => Ok(()),
        }
    };
    let consumer = match place.broker {
        Broker::Kafka => {
            let consumer = place.consumer().progress(progress).on_failure(OnFailure::ParkAlone).records_max(40);
            let consumer = if batches { consumer.batch_records_max(8).workers(2) } else { consumer };
            let key = move |record: &Record| match poison == Some(number(record)) {
                true => std::process::abort(),
                false => Some(InboxKey::of_text(number(record).to_string())),
            };
            place.start(if in_key { consumer.inbox_key(key) } else { consumer }, handle)
        }
        #[cfg(feature = "_test")]
        Broker::Rocketmq => {
            let consumer = super::rocketmq::consumer(&place).progress(progress);
            place.start(consumer.on_failure(OnFailure::ParkAlone).records_max(40), handle)
        }
    };
    place.wait_until_consumed();
    if replays {
        wait_until("nothing is released", || place.count("SELECT count(*) FROM outbox_parked WHERE released = 1") == 0);
    }
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// Kills a process at a step, and lets another one go on.
async fn die_and_go_on(script: Script) {
    script.spawn().wait_until_killed().await;
    let next = Script { crash_at: None, ..script };
    assert!(next.spawn().wait_for_exit().await.success(), "after {:?}", script.crash_at);
}

async fn dies_at(step: &str, on: On, has_offsets: bool) {
    let Some(bed) = Bed::open(on, 2).await else { return };
    dies_and_goes_on(&bed.place, step, has_offsets).await;
}

async fn dies_at_in_a_batch(step: &str, on: On, has_offsets: bool) {
    let Some(bed) = Bed::open(on, 2).await else { return };
    bed.place.send(numbers(0..RECORDS));
    // A batch has up to eight records.
    let nth_hit = if step == "consumer::handled" { 5 } else { 2 };
    let crash_at = Some((step.to_owned(), nth_hit));
    die_and_go_on(Script { has_offsets, batches: true, crash_at, ..Script::of(bed.place.clone()) }).await;
    bed.place.assert_once_in_order(RECORDS);
}

pub(super) async fn dies_and_goes_on(place: &Place, step: &str, has_offsets: bool) {
    place.send(numbers(0..RECORDS));
    let is_parking = step == "consumer::parked";
    // Offsets are committed for many records at once.
    let nth_hit = if is_parking || step.contains("offsets") { 1 } else { 5 };
    let refused = is_parking.then_some(11);
    let crash_at = Some((step.to_owned(), nth_hit));
    die_and_go_on(Script { has_offsets, crash_at, refused, ..Script::of(place.clone()) }).await;
    let effects = place.effects().len() + place.parked().len();
    assert_eq!((effects, place.parked().len()), (40, usize::from(is_parking)), "at {step}");
    if !is_parking {
        place.assert_once_in_order(RECORDS);
    }
}

macro_rules! at_each_step {
    ($($test:ident = $step:literal;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            dies_at($step, On::Postgres, false).await;
        })+

        mod with_offsets {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at($step, super::On::Postgres, true).await;
            })+
        }

        mod on_mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at($step, super::On::Mariadb, false).await;
            })+
        }

        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at($step, super::On::Sqlite, false).await;
            })+
        }

        pub(crate) const TESTED: &[&str] = &[$($step,)+];
    };
}

at_each_step! {
    after_the_claim = "consumer::claimed";
    after_the_handler = "consumer::handled";
    before_commit = "consumer::committing";
    after_commit = "consumer::committed";
    after_parking = "consumer::parked";
    before_committing_offsets = "consumer::committing_offsets";
    after_committing_offsets = "consumer::offsets_committed";
}

macro_rules! at_each_step_of_a_batch {
    ($($test:ident = $step:literal;)+) => {
        mod in_batches {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at_in_a_batch($step, super::On::Postgres, false).await;
            })+
        }

        mod batches_with_offsets {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at_in_a_batch($step, super::On::Postgres, true).await;
            })+
        }

        mod batches_on_mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::dies_at_in_a_batch($step, super::On::Mariadb, false).await;
            })+
        }
    };
}

at_each_step_of_a_batch! {
    after_the_handler = "consumer::handled";
    after_the_claim = "consumer::claimed";
    before_commit = "consumer::committing";
    after_commit = "consumer::committed";
}

/// It is found and parked; everything else is processed.
async fn the_record_that_kills_its_process_is_found(script: &Script) {
    let place = &script.place;
    let mut deaths = 0;
    while !script.spawn().wait_for_exit().await.success() {
        deaths += 1;
        assert!(deaths < 10, "it is not found");
    }
    assert_eq!(deaths, 6, "two to suspect any, one to find its group, and three to be sure");
    let parked = place.parked();
    assert_eq!((parked.len(), parked[0].offset), (1, 13));
    assert!(parked[0].error.contains("the process ended 3 times"), "{parked:?}");
    let mut numbers: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..RECORDS).filter(|number| *number != 13).collect::<Vec<_>>());
}

/// The rest of its batch is processed.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_its_process_in_a_batch_is_found() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    bed.place.send(numbers(0..RECORDS));
    let script = Script { batches: true, poison: Some(13), ..Script::of(bed.place.clone()) };
    the_record_that_kills_its_process_is_found(&script).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_its_process_is_found() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    bed.place.send(numbers(0..RECORDS));
    let script = Script { poison: Some(13), ..Script::of(bed.place.clone()) };
    the_record_that_kills_its_process_is_found(&script).await;
}

/// The function that looks for its key is not called to park it. A copy of it was processed by the time that somebody releases it.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_key_kills_its_process_is_found() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = bed.place.clone();
    place.send_without_ids((0..RECORDS).map(|number| (number, "a")));
    let script = Script { poison: Some(13), in_key: true, replays: true, ..Script::of(place) };
    the_record_that_kills_its_process_is_found(&script).await;
    let mended = Script { poison: None, ..script };
    mended.place.send_without_ids([(13, "b")]);
    assert!(mended.spawn().wait_for_exit().await.success());
    mended.place.release(13);
    assert!(mended.spawn().wait_for_exit().await.success());
    assert_eq!((mended.place.effects().len(), mended.place.parked().len()), (40, 0));
}

/// It stays parked: the next process does not begin with it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_released_record_that_kills_its_process_is_not_replayed_again() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..RECORDS));
    let script = |poison, refused| Script { poison, refused, replays: true, ..Script::of(place.clone()) };
    assert!(script(None, Some(13)).spawn().wait_for_exit().await.success());
    place.release(13);
    assert!(!script(Some(13), None).spawn().wait_for_exit().await.success(), "it kills the process");
    let parked = place.parked();
    assert_eq!((parked.len(), parked[0].is_released, parked[0].replays), (1, false, 1), "{parked:?}");
    place.send(numbers(RECORDS..RECORDS + 5));
    assert!(script(Some(13), None).spawn().wait_for_exit().await.success());
    assert_eq!((place.effects().len(), place.parked().len()), (44, 1));
}
