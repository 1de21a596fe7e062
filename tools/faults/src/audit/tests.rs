use std::time::Duration;

use super::*;
use crate::schedule::Kind;
use crate::steady_state::Dead;
use crate::wire::{Group, ORDERED, TWICE};

struct Case {
    committed: Vec<Committed>,
    dead: Vec<DeadLetter>,
    is_all_redriven: bool,
    kept: Option<Vec<Uuid>>,
    records: Vec<Record>,
    windows: Vec<FaultWindow>,
    steady_states: Vec<SteadyState>,
    pool_overruns: Vec<PoolOverrun>,
    ledger: Option<Vec<Processed>>,
    twice: Vec<Record>,
}

fn name(sequence: u64) -> MessageName {
    MessageName { process: 1, sequence }
}

fn record(sequence: u64, at_ms: u64) -> Record {
    let message_id = Uuid::from_u128(sequence.into());
    let (partition, offset) = (0, at_ms.cast_signed());
    Record {
        name: Some(name(sequence)),
        message_id,
        at_ms,
        sent_by: Some(1),
        topic: ORDERED,
        partition,
        offset,
        key: Some("key".to_owned()),
        is_whole: true,
    }
}

/// Three messages of one key, each delivered once.
fn case() -> Case {
    let row = |n: u64| Committed::new(name(n), n.cast_signed(), Uuid::from_u128(n.into()), ORDERED, "key");
    let records = (1..=3).map(|n| record(n, n * 1_000)).collect();
    let committed = (1..=3).map(row).collect();
    Case {
        committed,
        dead: Vec::new(),
        is_all_redriven: true,
        kept: None,
        records,
        windows: Vec::new(),
        steady_states: Vec::new(),
        pool_overruns: Vec::new(),
        ledger: None,
        twice: Vec::new(),
    }
}

fn letter(sequence: u64, is_refused_at_first: bool) -> DeadLetter {
    DeadLetter { message_id: Uuid::from_u128(sequence.into()), name: Some(name(sequence)), is_refused_at_first }
}

fn findings(case: &Case) -> Vec<(Finding, usize)> {
    audit(case).findings.into_iter().map(|(finding, (count, _))| (finding, count)).collect()
}

fn audit(case: &Case) -> Audit {
    let applications = HashMap::from([(1, 0), (2, 1)]);
    Audit::of(&Evidence {
        committed: &case.committed,
        dead: &case.dead,
        is_all_redriven: case.is_all_redriven,
        kept: case.kept.as_deref(),
        records: &case.records,
        windows: &case.windows,
        steady_states: &case.steady_states,
        pool_overruns: &case.pool_overruns,
        ledger: case.ledger.as_deref(),
        twice: &case.twice,
        applications: &applications,
        late_ms: 5_000,
    })
}

#[test]
fn a_complete_run_has_no_findings() {
    assert_eq!(findings(&case()), []);
}

#[test]
fn losses_phantoms_changes_and_wrong_dead_letters_are_found() {
    let mut lost = case();
    lost.records.pop();
    assert_eq!(findings(&lost), [(Finding::Lost, 1)]);
    let mut phantom = case();
    phantom.records.push(record(9, 9_000));
    assert_eq!(findings(&phantom), [(Finding::Phantom, 1)]);
    let mut changed = case();
    changed.records[0].message_id = Uuid::from_u128(77);
    assert_eq!(findings(&changed), [(Finding::Changed, 1)]);
    let mut of_another_key = case();
    of_another_key.records[2].key = None;
    assert_eq!(findings(&of_another_key), [(Finding::Changed, 1)]);
    let mut dead = case();
    dead.dead.push(letter(2, false));
    assert_eq!(findings(&dead), [(Finding::WronglyDead, 1)]);
}

#[test]
fn a_dead_letter_that_could_not_be_redriven_is_not_judged() {
    let mut dead = case();
    dead.records.remove(1);
    for (is_refused_at_first, is_all_redriven, is_found) in
        [(true, false, false), (true, true, true), (false, false, true), (false, true, true)]
    {
        dead.dead = vec![letter(2, is_refused_at_first)];
        dead.is_all_redriven = is_all_redriven;
        let expected: &[(Finding, usize)] = if is_found { &[(Finding::WronglyDead, 1)] } else { &[] };
        assert_eq!(findings(&dead), expected, "curable: {is_refused_at_first}, cured: {is_all_redriven}");
        assert_eq!(audit(&dead).unjudged, usize::from(!is_found));
    }
}

#[test]
fn first_copies_have_to_be_in_order() {
    let mut inverted = case();
    inverted.records.swap(0, 1);
    assert_eq!(findings(&inverted), [(Finding::Inverted, 1)]);
}

#[test]
fn a_delayed_message_does_not_come_before_its_time() {
    let mut delayed = case();
    // It was stored when the clock said 2,000.
    for (due_ms, is_found) in [(2_000, false), (2_010, false), (2_500, true)] {
        delayed.committed[1] = delayed.committed[1].clone().delayed_until(due_ms);
        let expected: &[(Finding, usize)] = if is_found { &[(Finding::Early, 1)] } else { &[] };
        assert_eq!(findings(&delayed), expected, "{due_ms}");
    }
}

#[test]
fn the_history_has_each_sent_message_once() {
    let mut plain = case();
    plain.committed.iter_mut().for_each(|row| row.topic = PLAIN);
    plain.records.iter_mut().for_each(|record| record.topic = PLAIN);
    for (kept, wrong) in [(vec![1, 2, 3], 0), (vec![1, 3], 1), (vec![1, 2, 3, 3], 1), (vec![1, 2, 3, 9], 1)] {
        plain.kept = Some(kept.iter().map(|id| Uuid::from_u128(*id)).collect());
        let found: usize = findings(&plain).iter().map(|(_, count)| count).sum();
        assert_eq!(found, wrong, "{kept:?}");
    }
}

#[test]
fn a_second_copy_needs_a_fault_of_a_sender_in_between() {
    let mut doubled = case();
    doubled.records.push(record(1, 5_000));
    assert_eq!(findings(&doubled), [(Finding::Duplicate, 1)]);
    let kill = |application, at| FaultWindow::at("kill", application, at);
    doubled.windows = vec![kill(0, 2_000)];
    assert_eq!(audit(&doubled).lag_ms, 3_000);
    doubled.records[3].at_ms = 2_000 + LAG_MAX_MS + 1;
    assert_eq!(findings(&doubled), [(Finding::Duplicate, 1)], "too long after it");
    doubled.records[3].at_ms = 5_000;
    for (window, explains) in
        [(kill(0, 2_000), true), (kill(1, 2_000), false), (kill(0, 6_000), false), (kill(0, 0), false)]
    {
        doubled.windows = vec![window];
        assert_eq!(findings(&doubled).is_empty(), explains, "{:?}", doubled.windows);
    }
}

#[test]
fn downtime_of_a_server_does_not_count_for_a_copy() {
    let kill = FaultWindow::at("kill", 0, 2_000);
    // Both down for a while, one after the copy, one before the fault.
    let downs = [(1_000, 1_500), (3_000, 6_000), (5_000, 7_000), (9_000, 20_000)];
    let windows: Vec<FaultWindow> = downs.map(|(from_ms, until_ms)| FaultWindow::down(from_ms, until_ms)).into();
    assert_eq!(lag_ms(&kill, 8_000, &windows), 2_000);
    assert_eq!(lag_ms(&kill, 10_000, &windows), 3_000);
    assert_eq!(lag_ms(&kill, 1_900, &windows), 0, "the copy came before the end of the fault");
    assert_eq!(lag_ms(&kill, 8_000, &[]), 6_000);
}

/// The next owners of a lane die as well, before they send.
#[test]
fn deaths_of_further_applications_at_steps_do_not_count_for_a_copy() {
    let kill = FaultWindow::at("kill", 0, 2_000);
    let further = |kind| [FaultWindow::of(kind, Some(1), [3_000, 6_000])];
    assert_eq!(lag_ms(&kill, 8_000, &further(Kind::CrashApplication)), 3_000);
    assert_eq!(lag_ms(&kill, 8_000, &further(Kind::KillApplication)), 6_000, "of these there are few");
}

#[test]
fn where_applications_die_all_the_time_plain_lanes_may_take_longer() {
    let of = |kind| [FaultWindow::of(kind, Some(1), [3_000, 6_000])];
    let lags = [PLAIN, ORDERED, AGED].map(|topic| lag_max_ms(topic, &of(Kind::CrashApplication)));
    assert_eq!(lags, [LAG_MAX_MS, u64::MAX, LAG_MAX_MS]);
    assert_eq!(lag_max_ms(ORDERED, &of(Kind::KillApplication)), LAG_MAX_MS);
}

/// A fault that begins after the row was settled is no reason.
#[test]
fn a_fault_that_explains_a_copy_begins_before_the_row_was_settled() {
    let mut doubled = case();
    doubled.records.push(record(1, 9_000));
    for (at, explains) in [(1_000 + SETTLED_MAX_MS, true), (1_001 + SETTLED_MAX_MS, false)] {
        doubled.windows = vec![FaultWindow::at("kill", 0, at)];
        assert_eq!(findings(&doubled).is_empty(), explains, "{at}");
    }
    // A third copy counts from the second, and one reason does not cover both.
    doubled.records.push(record(1, 20_000));
    doubled.windows = vec![FaultWindow::at("kill", 0, 2_000)];
    assert_eq!(findings(&doubled), [(Finding::Duplicate, 1)]);
    doubled.windows.push(FaultWindow::at("kill", 0, 9_500));
    assert_eq!(findings(&doubled), []);
}

#[test]
fn no_fault_explains_a_copy_on_the_exactly_once_topic() {
    let mut again = case();
    for (topic, found) in [(ORDERED, 0), (FENCED, 1)] {
        again.committed.iter_mut().for_each(|row| row.topic = topic);
        again.records = (1..=3).map(|n| record(n, n * 1_000)).collect();
        again.records.push(record(1, 5_000));
        again.records.iter_mut().for_each(|record| record.topic = topic);
        again.windows = vec![FaultWindow::at("kill", 0, 1_500)];
        let audit = audit(&again);
        assert_eq!((audit.count(Finding::Duplicate), audit.copies_on_exactly_once), (found, found));
    }
}

fn read(rows: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("outbox_messages_due".to_owned(), rows)])
}

fn steady_state(until_ms: u64) -> SteadyState {
    SteadyState { from_ms: 10_000, until_ms, rows_read: read(0), dead: None }
}

#[test]
fn a_slow_message_is_late_in_a_steady_state_and_not_during_a_fault() {
    let mut slow = case();
    slow.committed[2] = slow.committed[2].clone().noted_at(11_000);
    slow.records[2].at_ms = 16_500;
    assert_eq!(findings(&slow), [], "no steady state");
    slow.steady_states = vec![steady_state(15_500)];
    assert_eq!(findings(&slow), [], "the steady state ended before it was late");
    slow.steady_states = vec![steady_state(18_000)];
    assert_eq!(findings(&slow), [(Finding::Late, 1)]);
    assert_eq!(audit(&slow).steady_state, BTreeMap::from([(false, (1, 5_500))]));
    slow.windows = vec![FaultWindow::of(Kind::HoldSnapshot, None, [9_000, 20_000])];
    assert_eq!(findings(&slow), [(Finding::Late, 1)], "a snapshot delays nothing");
    assert_eq!(audit(&slow).steady_state, BTreeMap::from([(true, (1, 5_500))]));
    slow.windows = vec![FaultWindow::of(Kind::LockTable, None, [12_000, 13_000])];
    assert_eq!(findings(&slow), []);
}

#[test]
fn dead_rows_may_be_scanned_as_often_as_a_relay_pauses_between() {
    let mut costly = case();
    // 8 s, in which a scan of 80 ms is due each 4.08 s: four for each relay, through 400,000.
    let dead = Dead { rows: 250_000, walk: Duration::from_millis(80) };
    costly.steady_states = vec![SteadyState { rows_read: read(6_400_000), dead: Some(dead), ..steady_state(18_000) }];
    assert_eq!(findings(&costly), []);
    costly.steady_states[0].rows_read = read(6_400_001);
    assert_eq!(findings(&costly), [(Finding::DeadRowsRead, 1)]);
    costly.steady_states[0].dead = None;
    assert_eq!(findings(&costly), [], "vacuum removes it");
}

#[test]
fn a_relay_with_more_connections_than_its_pool_is_found_unless_its_network_was_cut() {
    let mut overrun = case();
    overrun.pool_overruns = vec![PoolOverrun { process: 2, from_ms: 5_000, until_ms: 5_900, most: 12 }];
    assert_eq!(findings(&overrun), [], "the server noticed the end a moment later");
    overrun.pool_overruns[0].until_ms = 6_500;
    assert_eq!(findings(&overrun), [(Finding::TooManyConnections, 1)]);
    overrun.windows = vec![FaultWindow::of(Kind::CutDatabase, Some(0), [4_000, 4_500])];
    assert_eq!(findings(&overrun), [(Finding::TooManyConnections, 1)], "the cut was another application's");
    overrun.windows.push(FaultWindow::of(Kind::CutDatabase, Some(1), [4_000, 4_500]));
    assert_eq!(findings(&overrun), []);
}

/// Its records have the sender's timestamps, if any, so no fault can be matched.
#[test]
fn a_second_copy_of_the_aged_topic_is_not_judged_and_a_lost_message_is() {
    let mut aged = case();
    for row in &mut aged.committed {
        row.topic = AGED;
    }
    for record in &mut aged.records {
        record.topic = AGED;
    }
    aged.records.push(aged.records[0].clone());
    assert_eq!(findings(&aged), []);
    aged.records.retain(|record| record.name != Some(name(2)));
    assert_eq!(findings(&aged), [(Finding::Lost, 1)]);
}

/// The case with what consumers did to its messages, and one that the driver has delivered to two partitions.
fn processed() -> Case {
    let mut case = case();
    case.twice = [0, 1].map(|partition| Record { topic: TWICE, partition, ..record(9, 500) }).into();
    let of =
        |number: u64, topic, name_of| Processed::new(number.cast_signed(), Group::Inbox, topic, name(name_of), "key");
    case.ledger = Some(vec![of(1, ORDERED, 1), of(2, TWICE, 9), of(3, ORDERED, 2), of(4, ORDERED, 3)]);
    case
}

#[test]
fn consumers_process_each_message_once_and_each_key_in_order() {
    assert_eq!(findings(&processed()), []);
    assert_eq!(audit(&processed()).processed, 4);
    let found = |change: fn(&mut Vec<Processed>)| {
        let mut case = processed();
        change(case.ledger.as_mut().expect("a ledger"));
        findings(&case)
    };
    assert_eq!(found(|ledger| drop(ledger.remove(1))), [(Finding::NotProcessed, 1)]);
    assert_eq!(found(|ledger| ledger.push(ledger[1].clone())), [(Finding::ProcessedTwice, 1)]);
    assert_eq!(found(|ledger| ledger.swap(0, 2)), [(Finding::ProcessedInverted, 1)]);
    assert_eq!(found(|ledger| ledger[1].key = None), [(Finding::ProcessedPhantom, 1)]);
    let phantom = |ledger: &mut Vec<Processed>| ledger.push(Processed::new(5, Group::Inbox, ORDERED, name(7), "key"));
    assert_eq!(found(phantom), [(Finding::ProcessedPhantom, 1)]);
}

/// The group with offsets in the database reads the exactly-once topic alone.
#[test]
fn each_group_processes_what_it_reads() {
    let mut fenced = case();
    fenced.committed.iter_mut().for_each(|row| row.topic = FENCED);
    fenced.records.iter_mut().for_each(|record| record.topic = FENCED);
    let of = |number: i64, group| Processed::new(number, group, FENCED, name(number.cast_unsigned()), "key");
    let ledger = Group::ALL.into_iter().flat_map(|group| (1..=3).map(move |number| of(number, group)));
    fenced.ledger = Some(ledger.collect());
    assert_eq!(findings(&fenced), []);
    fenced.ledger.as_mut().expect("a ledger").pop();
    assert_eq!(findings(&fenced), [(Finding::NotProcessed, 1)], "one group's effect is none of the other");
}
