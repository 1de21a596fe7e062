//! Compares what was committed with what arrived. Knows nothing of the library: only the truth, the records and the faults.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use crate::consumer::Record;
use crate::journal::Window;
use crate::truth::{Committed, Letter, Name};
use crate::wire::PLAIN;

/// Examples kept of each finding.
const EXAMPLES_MAX: usize = 8;
/// What a delayed message may be early, in milliseconds: all clocks are the machine's, and may be set by it.
const EARLY_MAX_MS: u64 = 20;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) committed: usize,
    pub(crate) consumed: usize,
    pub(crate) dead: usize,
    /// Dead letters of which nobody could see whether they would be dead still, had they been redriven.
    pub(crate) unjudged: usize,
    /// Delayed messages that came, none before its time.
    pub(crate) in_time: usize,
    /// Messages in the history.
    pub(crate) kept: usize,
    /// Further copies, by what explains them.
    pub(crate) duplicates: BTreeMap<&'static str, usize>,
    /// What must not be: by kind, how often, and examples.
    pub(crate) findings: BTreeMap<Finding, (usize, Vec<String>)>,
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Committed, and neither in its topic nor among the dead letters.
    Lost,
    /// Never committed.
    Phantom,
    /// Another id, other bytes or another topic than were committed.
    Changed,
    /// Twice, and no fault explains it.
    Doubled,
    /// Behind a later message of its key.
    Inverted,
    /// Delayed, and there before its time.
    Early,
    /// Given up although nobody refused it, or not although somebody did.
    WronglyDead,
    /// Sent, and not in the history of a topic that has one; or there, and not sent.
    WronglyKept,
    /// Something did not end in time.
    Stuck,
}

impl Finding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Phantom => "never committed",
            Self::Changed => "changed",
            Self::Doubled => "doubled without a reason",
            Self::Inverted => "inverted",
            Self::Early => "before its time",
            Self::WronglyDead => "wrongly dead or alive",
            Self::WronglyKept => "wrongly in the history or not",
            Self::Stuck => "stuck",
        }
    }
}

/// Everything that an audit looks at.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) committed: &'a [Committed],
    pub(crate) dead: &'a [Letter],
    /// Whether what the broker took again was redriven to the end.
    pub(crate) is_cured: bool,
    /// The history, where the plain topic has one.
    pub(crate) kept: Option<&'a [Uuid]>,
    /// Those of a partition in its order.
    pub(crate) records: &'a [Record],
    pub(crate) windows: &'a [Window],
    /// Which application a process was a life of.
    pub(crate) applications: &'a HashMap<u32, usize>,
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
        let truth: HashMap<Name, &Committed> = evidence.committed.iter().map(|row| (row.name(), row)).collect();
        let mut copies: HashMap<Name, Vec<&Record>> = HashMap::new();
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
        audit.look_for_losses(evidence, &copies);
        audit.look_for_haste(&copies, &truth);
        audit.look_into_the_history(evidence, &copies, &truth);
        for records in copies.values_mut().filter(|records| records.len() > 1) {
            audit.explain(records, evidence);
        }
        audit.look_for_inversions(evidence, &truth);
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

    fn look_for_losses(&mut self, evidence: &Evidence<'_>, copies: &HashMap<Name, Vec<&Record>>) {
        let dead: HashMap<Uuid, &Letter> = evidence.dead.iter().map(|letter| (letter.message_id, letter)).collect();
        let named: HashMap<Name, &Letter> = evidence.dead.iter().filter_map(|of| Some((of.name?, of))).collect();
        let committed: HashSet<Uuid> = evidence.committed.iter().filter_map(|row| row.message_id).collect();
        let without_id = evidence.committed.iter().filter(|row| row.message_id.is_none()).map(Committed::name);
        let without_id: HashSet<Name> = without_id.collect();
        for row in evidence.committed {
            let letter = row.message_id.map_or_else(|| named.get(&row.name()), |id| dead.get(&id));
            let (is_dead, is_doomed) = (letter.is_some(), row.is_doomed());
            if letter.is_some_and(|letter| letter.is_curable && !evidence.is_cured) {
                self.unjudged += 1;
            } else if !is_dead && !copies.contains_key(&row.name()) {
                self.find(Finding::Lost, || format!("{row:?}"));
            } else if is_dead != is_doomed {
                self.find(Finding::WronglyDead, || format!("dead: {is_dead}, refused: {is_doomed}, {row:?}"));
            }
        }
        let is_known = |letter: &&Letter| {
            committed.contains(&letter.message_id) || letter.name.is_some_and(|name| without_id.contains(&name))
        };
        for letter in evidence.dead.iter().filter(|letter| !is_known(letter)) {
            self.find(Finding::Phantom, || format!("{letter:?}"));
        }
    }

    /// No copy of a delayed message comes before it is due.
    fn look_for_haste(&mut self, copies: &HashMap<Name, Vec<&Record>>, truth: &HashMap<Name, &Committed>) {
        for (name, records) in copies {
            let Some(not_before_ms) = truth.get(name).and_then(|row| row.not_before_ms()) else { continue };
            match records.iter().find(|record| record.at_ms + EARLY_MAX_MS < not_before_ms) {
                Some(record) => self.find(Finding::Early, || format!("due at {not_before_ms}: {record:?}")),
                None => self.in_time += 1,
            }
        }
    }

    /// Of the plain topic: what was sent is in the history once, and nothing else is. Everything is settled by now.
    fn look_into_the_history(
        &mut self,
        evidence: &Evidence<'_>,
        copies: &HashMap<Name, Vec<&Record>>,
        truth: &HashMap<Name, &Committed>,
    ) {
        let Some(ids) = evidence.kept else { return };
        let mut kept: HashMap<Uuid, usize> = HashMap::new();
        for id in ids {
            *kept.entry(*id).or_default() += 1;
        }
        let is_plain = |name: Name| truth.get(&name).is_some_and(|row| row.topic == PLAIN);
        for record in copies.iter().filter(|(name, _)| is_plain(**name)).filter_map(|(_, records)| records.first()) {
            let times = kept.remove(&record.message_id).unwrap_or(0);
            if times != 1 {
                self.find(Finding::WronglyKept, || format!("{times} times in the history: {record:?}"));
            }
        }
        for id in kept.keys() {
            self.find(Finding::WronglyKept, || format!("in the history, and not sent: {id}"));
        }
    }

    /// Names the fault for each further copy: one that concerned a sender of the copies, or all, between the first and it.
    fn explain(&mut self, copies: &mut [&Record], evidence: &Evidence<'_>) {
        copies.sort_by_key(|record| record.at_ms);
        let Some((first, others)) = copies.split_first() else { return };
        for (place, copy) in others.iter().enumerate() {
            let senders: Vec<usize> = std::iter::once(first)
                .chain(&others[..=place])
                .filter_map(|record| evidence.applications.get(&record.sent_by?).copied())
                .collect();
            let concerns = |window: &&Window| {
                window.doubles
                    && window.application.is_none_or(|application| senders.contains(&application))
                    && window.from_ms <= copy.at_ms
                    && window.until_ms + window.lasts_ms >= first.at_ms
            };
            match evidence.windows.iter().filter(concerns).min_by_key(|window| window.rank()) {
                Some(window) => *self.duplicates.entry(window.name).or_default() += 1,
                None => self.find(Finding::Doubled, || format!("{first:?} again as {copy:?}")),
            }
        }
    }

    /// The first copies of a key's messages are in the order of its commits. A later copy of an older one is a duplicate.
    fn look_for_inversions(&mut self, evidence: &Evidence<'_>, truth: &HashMap<Name, &Committed>) {
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

/// What there is to say of a record behind a later one of its key: where all copies of both are.
fn inversion(records: &[Record], key: &str, [record, earlier]: [&Record; 2]) -> String {
    let copies = |of: &Record| -> Vec<(i32, i64, u64)> {
        let copies = records.iter().filter(|copy| copy.name == of.name);
        copies.map(|copy| (copy.partition, copy.offset, copy.at_ms)).collect()
    };
    format!("{key}: {record:?}, of {:?}, behind {earlier:?}, of {:?}", copies(record), copies(earlier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ORDERED;

    struct Case {
        committed: Vec<Committed>,
        dead: Vec<Letter>,
        is_cured: bool,
        kept: Option<Vec<Uuid>>,
        records: Vec<Record>,
        windows: Vec<Window>,
    }

    fn name(sequence: u64) -> Name {
        Name { process: 1, sequence }
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
            is_whole: true,
        }
    }

    /// Three messages of one key, each arrived once.
    fn case() -> Case {
        let row = |n: u64| Committed::new(name(n), n.cast_signed(), Uuid::from_u128(n.into()), ORDERED, "key");
        let records = (1..=3).map(|n| record(n, n * 1_000)).collect();
        let committed = (1..=3).map(row).collect();
        Case { committed, dead: Vec::new(), is_cured: true, kept: None, records, windows: Vec::new() }
    }

    fn letter(sequence: u64, is_curable: bool) -> Letter {
        Letter { message_id: Uuid::from_u128(sequence.into()), name: Some(name(sequence)), is_curable }
    }

    fn findings(case: &Case) -> Vec<(Finding, usize)> {
        audit(case).findings.into_iter().map(|(finding, (count, _))| (finding, count)).collect()
    }

    fn audit(case: &Case) -> Audit {
        let applications = HashMap::from([(1, 0), (2, 1)]);
        Audit::of(&Evidence {
            committed: &case.committed,
            dead: &case.dead,
            is_cured: case.is_cured,
            kept: case.kept.as_deref(),
            records: &case.records,
            windows: &case.windows,
            applications: &applications,
        })
    }

    #[test]
    fn what_is_whole_has_no_finding() {
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
        let mut dead = case();
        dead.dead.push(letter(2, false));
        assert_eq!(findings(&dead), [(Finding::WronglyDead, 1)]);
    }

    #[test]
    fn a_letter_that_could_not_be_redriven_is_not_judged() {
        let mut dead = case();
        dead.records.remove(1);
        for (is_curable, is_cured, is_found) in
            [(true, false, false), (true, true, true), (false, false, true), (false, true, true)]
        {
            dead.dead = vec![letter(2, is_curable)];
            dead.is_cured = is_cured;
            let expected: &[(Finding, usize)] = if is_found { &[(Finding::WronglyDead, 1)] } else { &[] };
            assert_eq!(findings(&dead), expected, "curable: {is_curable}, cured: {is_cured}");
            assert_eq!(audit(&dead).unjudged, usize::from(!is_found));
        }
    }

    #[test]
    fn an_order_of_first_copies_is_asked_for() {
        let mut inverted = case();
        inverted.records.swap(0, 1);
        assert_eq!(findings(&inverted), [(Finding::Inverted, 1)]);
    }

    #[test]
    fn a_delayed_message_does_not_come_before_its_time() {
        let mut delayed = case();
        // It came when the clock said 2,000.
        for (due_ms, is_found) in [(2_000, false), (2_010, false), (2_500, true)] {
            delayed.committed[1] = delayed.committed[1].clone().delayed_until(due_ms);
            let expected: &[(Finding, usize)] = if is_found { &[(Finding::Early, 1)] } else { &[] };
            assert_eq!(findings(&delayed), expected, "{due_ms}");
        }
    }

    #[test]
    fn the_history_has_what_was_sent_and_that_once() {
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
        assert_eq!(findings(&doubled), [(Finding::Doubled, 1)]);
        let kill = |application, at| Window::at("kill", application, at);
        for (window, explains) in
            [(kill(0, 2_000), true), (kill(1, 2_000), false), (kill(0, 6_000), false), (kill(0, 0), false)]
        {
            doubled.windows = vec![window];
            assert_eq!(findings(&doubled).is_empty(), explains, "{:?}", doubled.windows);
        }
    }
}
