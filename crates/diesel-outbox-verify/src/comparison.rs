//! One comparison of tables and topic, from the first row to the report.

use std::collections::HashMap;
use std::io;
use std::time::SystemTime;

use crate::candidates::Candidates;
use crate::check::{Check, Checked, place};
use crate::compare::{Joined, Rules, compare};
use crate::doubt::Doubt;
use crate::entry::{Entry, Millis, Origin};
use crate::error::VerifyError;
use crate::finding::{Finding, RecordPlace};
use crate::limits::{CLOCK_SKEW_MAX, TOPIC_LEAD};
use crate::lookup::{Lookup, instant};
use crate::order::{self, Order};
use crate::progress::{Phase, Progress};
use crate::record::Record;
use crate::report::{self, Count, Counts, Report};
use crate::rows::{RowReader, Rows};
use crate::sorter::{SortLimits, Sorter};
use crate::source::{Compaction, RecordSource, TopicState};
use crate::spilling::{Spilling, blocking};

/// What is compared, and how.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pub(crate) rows: Rows<'a>,
    pub(crate) started_at: Millis,
    pub(crate) since: Option<SystemTime>,
    pub(crate) findings_max: usize,
    pub(crate) sort: &'a SortLimits,
    pub(crate) has_history: bool,
}

/// What was read, and what was found so far.
#[derive(Debug, Default)]
struct Found {
    compared: report::Compared,
    counts: Counts,
    findings: Vec<Finding>,
    doubts: Vec<Doubt>,
}

/// What was read of the topic.
#[derive(Debug)]
struct ReadTopic {
    records: u64,
    /// Records that no outbox has written.
    foreign: Candidates<RecordPlace>,
    /// The time of the first record of each partition.
    first_at: HashMap<u32, Millis>,
}

impl Comparison<'_> {
    /// Reads the tables first and the topic last: what was sent when its row was read, the topic has.
    pub(crate) async fn run(
        &self,
        source: &mut dyn RecordSource,
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<Report, VerifyError> {
        let mut found = Found::default();
        let mut entries = Spilling::new(self.sort);
        self.read_rows(&mut entries, &mut found.compared, progress).await?;
        let lead = self.since.map(|since| since.checked_sub(TOPIC_LEAD).unwrap_or(SystemTime::UNIX_EPOCH));
        source.open(self.rows.topic, lead).await?;
        let topic = self.read_topic(source, &mut entries, progress).await?;
        let state = source.state();
        found.compared.records = topic.records;
        found.compared.partitions.clone_from(&state.partitions);

        progress(Progress { phase: Phase::Comparing, done: 0, of: None });
        let rules = self.rules(&state, &topic);
        let (compared, order) = self.compare(entries, &rules).await?;
        found.compared.matched = compared.matched;
        note_doubts(&mut found, &state, &rules, &compared, &order);
        self.check(&mut found, source, (compared, order, topic.foreign), progress).await?;
        let found_nothing = found.compared.matched == 0 && found.findings.is_empty() && found.doubts.is_empty();
        if found_nothing || (found.compared.sent == 0 && found.compared.records == 0) {
            found.doubts.push(Doubt::NothingToCompare);
        }
        let Found { compared, counts, findings, doubts } = found;
        let (topic, until) = (self.rows.topic.into(), self.rows.before);
        Ok(Report { topic, since: self.since, until, compared, counts, findings, cannot_tell: doubts })
    }

    async fn read_rows(
        &self,
        entries: &mut Spilling<Entry>,
        compared: &mut report::Compared,
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<(), VerifyError> {
        let mut reader = RowReader::new(self.rows, self.has_history);
        while let Some(rows) = reader.next().await? {
            for row in &rows {
                match row.origin {
                    Origin::History => compared.sent += 1,
                    Origin::DeadLetters => compared.dead_letters += 1,
                    Origin::Live | Origin::Topic => compared.live += 1,
                }
            }
            entries.push_all(rows).await?;
            let done = compared.sent + compared.dead_letters + compared.live;
            progress(Progress { phase: Phase::Rows, done, of: None });
        }
        Ok(())
    }

    async fn read_topic(
        &self,
        source: &mut dyn RecordSource,
        entries: &mut Spilling<Entry>,
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<ReadTopic, VerifyError> {
        let partitions = source.state().partitions;
        let of = partitions.iter().map(|partition| u64::try_from(partition.end - partition.begin).unwrap_or(0)).sum();
        let mut topic = ReadTopic { records: 0, foreign: Candidates::new(self.findings_max), first_at: HashMap::new() };
        let mut done = 0;
        loop {
            let records = source.next().await?;
            if records.is_empty() {
                return Ok(topic);
            }
            done += records.len() as u64;
            let mut batch = Vec::with_capacity(records.len());
            for record in &records {
                topic.first_at.entry(record.partition).or_insert(Millis::of(record.at));
                if !self.is_in_period(record) {
                    continue;
                }
                topic.records += 1;
                match record.message_id {
                    Some(message_id) => batch.push(Entry::of_record(record, message_id)),
                    None => topic.foreign.push(place(&partitions, record.partition, record.offset, record.at)),
                }
            }
            entries.push_all(batch).await?;
            progress(Progress { phase: Phase::Records, done, of: Some(of) });
        }
    }

    /// By the time at which its message was enqueued, which row and record both have.
    fn is_in_period(&self, record: &Record) -> bool {
        (self.rows.from..self.rows.before).contains(&record.created_at.unwrap_or(record.at))
    }

    fn rules(&self, state: &TopicState, topic: &ReadTopic) -> Rules {
        let cut = state.partitions.iter().enumerate().filter(|(_, partition)| partition.is_cut());
        let first = cut.map(|(index, _)| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            // Of a partition without a record, everything may have been removed.
            topic.first_at.get(&index).copied().unwrap_or(self.started_at)
        });
        Rules {
            complete_from: first.max().map(|first| first.plus(CLOCK_SKEW_MAX)),
            is_compacted: state.compaction != Compaction::Off,
            is_unread: state.partitions.iter().any(|of| of.unread.is_some() || of.open_transaction.is_some()),
            started_at: self.started_at,
            delay: state.delay,
            findings_max: self.findings_max,
        }
    }

    async fn compare(&self, entries: Spilling<Entry>, rules: &Rules) -> Result<(Joined, Order), VerifyError> {
        let (rules, sort) = (rules.clone(), self.sort.clone());
        let work = move || -> io::Result<(Joined, Order)> {
            let mut compared = compare(entries.into_sorter().sorted()?, &rules, &sort)?;
            let order = std::mem::replace(&mut compared.order, Sorter::new(&sort));
            Ok((compared, order::check(order.sorted()?, rules.findings_max)?))
        };
        blocking(work, self.sort).await
    }

    /// Looks every candidate up again.
    async fn check(
        &self,
        found: &mut Found,
        source: &mut dyn RecordSource,
        candidates: (Joined, Order, Candidates<RecordPlace>),
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<(), VerifyError> {
        let (compared, order, foreign) = candidates;
        let partitions = found.compared.partitions.clone();
        let lookup = Lookup { admin: self.rows.admin, topic: self.rows.topic };
        let check = Check { lookup, partitions: &partitions };
        let mut tell = |done| progress(Progress { phase: Phase::Checking, done, of: Some(5) });
        found.add(|counts| &mut counts.lost, check.lost(source, compared.lost).await?);
        tell(1);
        let history_since = compared.history_since.filter(|_| self.has_history);
        let (phantoms, older) = check.phantoms(compared.phantoms, history_since, foreign).await?;
        found.add(|counts| &mut counts.phantom, phantoms);
        tell(2);
        found.add(|counts| &mut counts.reordered, check.reordered(order.reordered).await?);
        tell(3);
        found.add(|counts| &mut counts.altered, check.altered(compared.altered).await?);
        tell(4);
        found.add(|counts| &mut counts.early, check.early(compared.early).await?);
        tell(5);
        found.counts.doubled = Count { count: compared.doubled.total, more: false };
        found.findings.extend(compared.doubled.kept.iter().map(|doubled| check.doubled(doubled)));
        match self.has_history {
            false => found.doubts.push(Doubt::HistoryNotKept { records: older }),
            true if older > 0 => {
                let since = history_since.map(instant);
                found.doubts.push(Doubt::HistoryRetention { records: older, since });
            }
            true => {}
        }
        Ok(())
    }
}

impl Found {
    fn add(&mut self, count: impl FnOnce(&mut Counts) -> &mut Count, (findings, more): Checked) {
        *count(&mut self.counts) = Count { count: findings.len() as u64, more };
        self.findings.extend(findings);
    }
}

/// What cannot be told, whatever is found.
fn note_doubts(found: &mut Found, state: &TopicState, rules: &Rules, compared: &Joined, order: &Order) {
    let doubts = &mut found.doubts;
    for partition in &state.partitions {
        let name = || partition.name.clone();
        if let Some(problem) = &partition.unread {
            doubts.push(Doubt::UnreadPartition { partition: name(), problem: problem.clone() });
        }
        if let Some(open) = partition.open_transaction {
            let (last_stable, high_watermark) = (open.last_stable, open.high_watermark);
            doubts.push(Doubt::OpenTransaction { partition: name(), last_stable, high_watermark });
        }
    }
    match &state.compaction {
        Compaction::Off => {}
        Compaction::On => doubts.push(Doubt::Compaction { messages: compared.compacted, problem: None }),
        Compaction::Unknown(problem) => {
            doubts.push(Doubt::Compaction { messages: compared.compacted, problem: Some(problem.clone()) });
        }
    }
    if compared.unread > 0 {
        doubts.push(Doubt::Unread { messages: compared.unread });
    }
    if let Some(since) = rules.complete_from.filter(|_| compared.before_topic > 0) {
        doubts.push(Doubt::TopicRetention { messages: compared.before_topic, since: instant(since) });
    }
    if let Some(example) = order.example {
        doubts.push(Doubt::KeyInSeveralPartitions { keys: order.scattered, example });
    }
}
