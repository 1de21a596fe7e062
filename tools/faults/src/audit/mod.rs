//! Compares what was committed with what arrived. It knows nothing of the library, only the truth, the records and the
//! faults.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use crate::connection_monitor::PoolOverrun;
use crate::consumer::Record;
use crate::fault_log::FaultWindow;
use crate::ledger::Processed;
use crate::steady_state::SteadyState;
use crate::truth::{Committed, DeadLetter, MessageName};
use crate::wire::{AGED, FENCED, ORDERED, PLAIN};

mod processed;
mod steady_state;

/// Examples kept of each finding.
const EXAMPLES_MAX: usize = 8;
/// How early a delayed message may be, in milliseconds: all clocks are the machine's, which may be adjusted.
const EARLY_MAX_MS: u64 = 20;
/// A message is delayed by less than this.
const DELAY_MAX_MS: u64 = 4_000;
/// How long after the end of the fault that explains it a further copy may come. A sender that dies at the end of a
/// fault leaves rows to the sweeper, or to a lane's next owner, which may die too, and meet a paused topic. Time in
/// which the broker or the database is down does not count: each takes 3 to 17 s to restart.
const LAG_MAX_MS: u64 = 20_000;
/// How long after a copy the fault that explains the next one may begin. Later, the row is settled, unless another
/// fault prevents that, which is then the explanation. An acknowledgement may be late by a second, and a settle may
/// wait for a slow connection.
const SETTLED_MAX_MS: u64 = 3_000;
/// A fault that ended at most this long before the first of two copies is named with them.
const NEAR_MS: u64 = 10_000;

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) committed: usize,
    /// The number committed, by topic.
    pub(crate) committed_to: BTreeMap<i16, usize>,
    pub(crate) consumed: usize,
    pub(crate) dead: usize,
    /// Dead letters that were not judged, because the redrive did not finish.
    pub(crate) unjudged: usize,
    /// Delayed messages that arrived, none of them early.
    pub(crate) in_time: usize,
    /// Messages in the history.
    pub(crate) kept: usize,
    /// Effects of consumers.
    pub(crate) processed: usize,
    /// Further copies, by the fault that explains them.
    pub(crate) duplicates: BTreeMap<&'static str, usize>,
    /// Further copies on the exactly-once topic: each is a finding.
    pub(crate) copies_on_exactly_once: usize,
    /// The longest time from the last explaining fault to such a copy, in milliseconds.
    pub(crate) lag_ms: u64,
    /// Messages in a steady state: whether a snapshot was held, how many were judged, and the longest time of one in
    /// milliseconds.
    pub(crate) steady_state: BTreeMap<bool, (usize, u64)>,
    /// The findings: by kind, how often, with examples.
    pub(crate) findings: BTreeMap<Finding, (usize, Vec<String>)>,
}

/// What must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Committed, and neither in its topic nor among the dead letters.
    Lost,
    /// Never committed.
    Phantom,
    /// Another id, other bytes or another topic than was committed.
    Changed,
    /// A duplicate that no fault explains.
    Duplicate,
    /// After a later message of its key.
    Inverted,
    /// Delayed, and stored early.
    Early,
    /// Dead without a refusal, or refused and not dead.
    WronglyDead,
    /// Sent, but not in its topic's history; or in the history, but not sent.
    WronglyKept,
    /// In a steady state, and later than necessary.
    Late,
    /// Dead rows were read again and again.
    DeadRowsRead,
    /// A relay had more connections in the database than its pool allows.
    TooManyConnections,
    /// The library's own comparison of table and topic found something.
    Disagreement,
    /// In a topic, and without an effect by a consumer.
    NotProcessed,
    /// With two effects by a consumer.
    ProcessedTwice,
    /// With an effect, and not in its topic, or with another key.
    ProcessedPhantom,
    /// With an effect after that of a later message of its key.
    ProcessedInverted,
    /// Something did not end in time.
    Stuck,
}

impl Finding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Phantom => "never committed",
            Self::Changed => "changed",
            Self::Duplicate => "duplicated without a reason",
            Self::Inverted => "inverted",
            Self::Early => "early",
            Self::WronglyDead => "wrongly dead or alive",
            Self::WronglyKept => "wrongly in the history or not",
            Self::Late => "late in a steady state",
            Self::DeadRowsRead => "dead rows read again",
            Self::TooManyConnections => "more connections than the pool",
            Self::Disagreement => "table and topic disagree",
            Self::NotProcessed => "not processed",
            Self::ProcessedTwice => "processed twice",
            Self::ProcessedPhantom => "processed and not in the topic",
            Self::ProcessedInverted => "processed out of order",
            Self::Stuck => "stuck",
        }
    }
}

/// The input of an audit.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) committed: &'a [Committed],
    pub(crate) dead: &'a [DeadLetter],
    /// Whether the redrive of letters that the broker accepts again finished.
    pub(crate) is_all_redriven: bool,
    /// The history, if the plain and the ordered topic have one.
    pub(crate) kept: Option<&'a [Uuid]>,
    /// Those of a partition are in order.
    pub(crate) records: &'a [Record],
    /// What consumers did, if the run has some.
    pub(crate) ledger: Option<&'a [Processed]>,
    /// The records of the topic to which the driver sends.
    pub(crate) twice: &'a [Record],
    pub(crate) windows: &'a [FaultWindow],
    pub(crate) steady_states: &'a [SteadyState],
    pub(crate) pool_overruns: &'a [PoolOverrun],
    /// The application that each process belonged to.
    pub(crate) applications: &'a HashMap<u32, usize>,
    /// How long a message may take in a steady state, in milliseconds.
    pub(crate) late_ms: u64,
}

impl Audit {
    pub(crate) fn of(evidence: &Evidence<'_>) -> Self {
        let mut audit = Self {
            committed: evidence.committed.len(),
            consumed: evidence.records.len(),
            dead: evidence.dead.len(),
            kept: evidence.kept.map_or(0, <[Uuid]>::len),
            ..Self::default()
        };
        for row in evidence.committed {
            *audit.committed_to.entry(row.topic).or_default() += 1;
        }
        let truth: HashMap<MessageName, &Committed> = evidence.committed.iter().map(|row| (row.name(), row)).collect();
        let mut copies: HashMap<MessageName, Vec<&Record>> = HashMap::new();
        for record in evidence.records {
            match record.name.and_then(|name| Some((name, truth.get(&name)?))) {
                Some((name, row)) => {
                    let earlier = copies.entry(name).or_default();
                    let is_same = earlier.first().is_none_or(|first| first.message_id == record.message_id);
                    earlier.push(record);
                    if !record.is_of(row) || !is_same {
                        audit.find(Finding::Changed, || format!("{record:?} is not {row:?}"));
                    }
                }
                None => audit.find(Finding::Phantom, || format!("{record:?}")),
            }
        }
        audit.check_losses(evidence, &copies);
        audit.check_early(&copies, &truth, evidence.windows);
        audit.check_history(evidence, &copies, &truth);
        audit.check_late(evidence, &copies);
        audit.check_dead_row_reads(evidence);
        audit.check_connections(evidence);
        // On the aged topic the times of copies are unknown.
        let is_timed = |records: &&mut Vec<&Record>| records.len() > 1 && records[0].topic != AGED;
        for records in copies.values_mut().filter(is_timed) {
            audit.explain(records, evidence);
        }
        audit.check_order(evidence, &truth);
        if let Some(ledger) = evidence.ledger {
            audit.check_processed(ledger, &[evidence.records, evidence.twice].concat());
        }
        audit
    }

    pub(crate) fn find(&mut self, finding: Finding, example: impl FnOnce() -> String) {
        let (count, examples) = self.findings.entry(finding).or_default();
        *count += 1;
        if examples.len() < EXAMPLES_MAX {
            examples.push(example());
        }
    }

    pub(crate) fn count(&self, finding: Finding) -> usize {
        self.findings.get(&finding).map_or(0, |(count, _)| *count)
    }

    fn check_losses(&mut self, evidence: &Evidence<'_>, copies: &HashMap<MessageName, Vec<&Record>>) {
        let dead: HashMap<Uuid, &DeadLetter> = evidence.dead.iter().map(|letter| (letter.message_id, letter)).collect();
        let named: HashMap<MessageName, &DeadLetter> =
            evidence.dead.iter().filter_map(|of| Some((of.name?, of))).collect();
        let committed: HashSet<Uuid> = evidence.committed.iter().filter_map(|row| row.message_id).collect();
        let without_id = evidence.committed.iter().filter(|row| row.message_id.is_none()).map(Committed::name);
        let without_id: HashSet<MessageName> = without_id.collect();
        for row in evidence.committed {
            let letter = row.message_id.map_or_else(|| named.get(&row.name()), |id| dead.get(&id));
            let (is_dead, is_always_refused) = (letter.is_some(), row.is_always_refused());
            if letter.is_some_and(|letter| letter.is_refused_at_first && !evidence.is_all_redriven) {
                self.unjudged += 1;
            } else if !is_dead && !copies.contains_key(&row.name()) {
                self.find(Finding::Lost, || format!("{row:?}"));
            } else if is_dead != is_always_refused {
                self.find(Finding::WronglyDead, || format!("dead: {is_dead}, refused: {is_always_refused}, {row:?}"));
            }
        }
        let is_known = |letter: &&DeadLetter| {
            committed.contains(&letter.message_id) || letter.name.is_some_and(|name| without_id.contains(&name))
        };
        for letter in evidence.dead.iter().filter(|letter| !is_known(letter)) {
            self.find(Finding::Phantom, || format!("{letter:?}"));
        }
    }

    /// Checks that no copy of a delayed message is early.
    fn check_early(
        &mut self,
        copies: &HashMap<MessageName, Vec<&Record>>,
        truth: &HashMap<MessageName, &Committed>,
        windows: &[FaultWindow],
    ) {
        for (name, records) in copies {
            let Some(not_before_ms) = truth.get(name).and_then(|row| row.not_before_ms()) else { continue };
            let last_ms = records.iter().map(|record| record.at_ms).max().unwrap_or_default();
            if windows.iter().any(|window| window.skews(not_before_ms.saturating_sub(DELAY_MAX_MS), last_ms)) {
                // It is due by a clock that was wrong.
                continue;
            }
            match records.iter().find(|record| record.at_ms + EARLY_MAX_MS < not_before_ms) {
                Some(record) => self.find(Finding::Early, || format!("due at {not_before_ms}: {record:?}")),
                None => self.in_time += 1,
            }
        }
    }

    /// For the plain topic: each sent message is in the history once, and nothing else is. Everything is settled by
    /// now.
    fn check_history(
        &mut self,
        evidence: &Evidence<'_>,
        copies: &HashMap<MessageName, Vec<&Record>>,
        truth: &HashMap<MessageName, &Committed>,
    ) {
        let Some(ids) = evidence.kept else { return };
        let mut kept: HashMap<Uuid, usize> = HashMap::new();
        for id in ids {
            *kept.entry(*id).or_default() += 1;
        }
        let is_kept = |name: MessageName| truth.get(&name).is_some_and(|row| [PLAIN, ORDERED].contains(&row.topic));
        for record in copies.iter().filter(|(name, _)| is_kept(**name)).filter_map(|(_, records)| records.first()) {
            let times = kept.remove(&record.message_id).unwrap_or(0);
            if times != 1 {
                self.find(Finding::WronglyKept, || format!("{times} times in the history: {record:?}"));
            }
        }
        for id in kept.keys() {
            self.find(Finding::WronglyKept, || format!("in the history, but not sent: {id}"));
        }
    }

    /// Finds the fault for each further copy. It hit a sender of the copies, or all processes, between the two copies,
    /// and recovery was not complete. It began before the row can have been settled.
    ///
    /// The fenced topic is exactly once: no fault explains a copy there.
    fn explain(&mut self, copies: &mut [&Record], evidence: &Evidence<'_>) {
        copies.sort_by_key(|record| record.at_ms);
        for place in 1..copies.len() {
            let (before, copy) = (copies[place - 1], copies[place]);
            if copy.topic == FENCED {
                self.copies_on_exactly_once += 1;
                self.find(Finding::Duplicate, || format!("{before:?} again as {copy:?}, on an exactly-once topic"));
                continue;
            }
            let senders =
                copies[..=place].iter().filter_map(|record| evidence.applications.get(&record.sent_by?).copied());
            let senders: Vec<usize> = senders.collect();
            let concerns = |window: &&FaultWindow| {
                window.hits(&senders)
                    && window.from_ms <= before.at_ms + SETTLED_MAX_MS
                    && window.explains(before.at_ms, copy.at_ms)
            };
            let reasons: Vec<&FaultWindow> = evidence.windows.iter().filter(concerns).collect();
            let lag_ms = reasons.iter().map(|window| lag_ms(window, copy.at_ms, evidence.windows)).min();
            match (reasons.iter().min_by_key(|window| window.rank()), lag_ms) {
                (Some(window), Some(lag_ms)) if lag_ms <= lag_max_ms(copy.topic, evidence.windows) => {
                    *self.duplicates.entry(window.name).or_default() += 1;
                    self.lag_ms = self.lag_ms.max(lag_ms);
                }
                (_, Some(lag_ms)) => self.find(Finding::Duplicate, || {
                    format!("{before:?} again as {copy:?}, {lag_ms} ms after {reasons:?}")
                }),
                (_, None) => self.find(Finding::Duplicate, || {
                    let near = faults_near([before.at_ms, copy.at_ms], evidence.windows);
                    let (first_ms, age_ms) = (age_ms(before), age_ms(copy));
                    format!(
                        "{before:?}, {first_ms} ms after it was written, again as {copy:?}, after {age_ms} ms, by applications \
                         {senders:?}, which no fault explains; near it, from its first send: {near}"
                    )
                }),
            }
        }
    }

    /// Checks that the first copies of a key's messages are in the order of its commits. A later copy of an older
    /// message is a duplicate.
    fn check_order(&mut self, evidence: &Evidence<'_>, truth: &HashMap<MessageName, &Committed>) {
        let (mut seen, mut last) = (HashSet::new(), HashMap::<(i16, &str), (i64, &Record)>::new());
        for record in evidence.records.iter().filter(|record| record.topic != PLAIN) {
            let Some(row) = record.name.and_then(|name| truth.get(&name)) else { continue };
            let (Some(key), true) = (row.key.as_deref(), seen.insert(row.name())) else { continue };
            match last.insert((row.topic, key), (row.number, record)) {
                Some((before, earlier)) if before > row.number => {
                    self.find(Finding::Inverted, || inversion(evidence.records, key, [record, earlier]));
                }
                _ => {}
            }
        }
    }
}

/// What happened from some seconds before the first of two copies until the second, to any application.
fn faults_near([before_ms, copy_ms]: [u64; 2], windows: &[FaultWindow]) -> String {
    let near = windows.iter().filter(|window| window.from_ms <= copy_ms && window.until_ms + NEAR_MS >= before_ms);
    let from_first = |at_ms: u64| at_ms.cast_signed() - before_ms.cast_signed();
    let shown = near.map(|window| {
        let (from, until) = (from_first(window.from_ms), from_first(window.until_ms));
        format!("{} of {:?}, {from} to {until} ms", window.name, window.application)
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// The longest lag of a copy on a topic. Where applications die all the time, an owner of a plain lane seldom lives for as long as it waits
/// before its first send: there a copy need only come before the phase has recovered.
fn lag_max_ms(topic: i16, windows: &[FaultWindow]) -> u64 {
    match topic == ORDERED && windows.iter().any(FaultWindow::is_crash_of_application) {
        true => u64::MAX,
        false => LAG_MAX_MS,
    }
}

/// How long before this record its message was written, by the time in its id. About the staleness: a relay swept it
/// while its sender had it, too.
fn age_ms(record: &Record) -> u64 {
    let written = record.message_id.get_timestamp().map_or(0, |at| {
        let (seconds, nanoseconds) = at.to_unix();
        seconds * 1_000 + u64::from(nanoseconds / 1_000_000)
    });
    record.at_ms.saturating_sub(written)
}

/// How long after a fault a copy came, without the time in which a server was down, or further applications died.
fn lag_ms(fault: &FaultWindow, copy_ms: u64, windows: &[FaultWindow]) -> u64 {
    let from_ms = fault.until_ms.min(copy_ms);
    let mut downs: Vec<(u64, u64)> = windows
        .iter()
        .filter(|window| window.holds_up_copies())
        .map(|window| (window.from_ms.max(from_ms), window.until_ms.min(copy_ms)))
        .collect();
    downs.sort_unstable();
    let (mut lag_ms, mut counted_to_ms) = (copy_ms - from_ms, from_ms);
    for (down_ms, up_ms) in downs {
        lag_ms -= up_ms.saturating_sub(down_ms.max(counted_to_ms));
        counted_to_ms = counted_to_ms.max(up_ms);
    }
    lag_ms
}

/// Describes a record after a later one of its key, with all copies of both.
fn inversion(records: &[Record], key: &str, [record, earlier]: [&Record; 2]) -> String {
    let copies = |of: &Record| -> Vec<(i32, i64, u64)> {
        let copies = records.iter().filter(|copy| copy.name == of.name);
        copies.map(|copy| (copy.partition, copy.offset, copy.at_ms)).collect()
    };
    format!("{key}: {record:?}, of {:?}, after {earlier:?}, of {:?}", copies(record), copies(earlier))
}

#[cfg(test)]
mod tests;
