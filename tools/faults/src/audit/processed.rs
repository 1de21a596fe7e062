//! Compares what consumers did with what is in the topics.

use std::collections::{BTreeMap, HashMap};

use super::{Audit, Finding};
use crate::consumer::Record;
use crate::ledger::Processed;
use crate::truth::MessageName;
use crate::wire::Group;

impl Audit {
    /// Checks that each message of the topics has had one effect by each group, and those of a key in the order of the topic. No fault
    /// explains anything else.
    pub(super) fn check_processed(&mut self, ledger: &[Processed], records: &[Record]) {
        self.processed = ledger.len();
        for group in Group::ALL {
            let mut first: HashMap<MessageName, &Record> = HashMap::new();
            for record in records.iter().filter(|record| group.topics().contains(&record.topic)) {
                if let Some(name) = record.name {
                    first.entry(name).or_insert(record);
                }
            }
            let rows = || ledger.iter().filter(|row| row.consumer == group.number());
            let mut effects: BTreeMap<MessageName, usize> = BTreeMap::new();
            for row in rows() {
                *effects.entry(row.name()).or_default() += 1;
                if !first.get(&row.name()).is_some_and(|record| record.topic == row.topic && record.key == row.key) {
                    self.find(Finding::ProcessedPhantom, || format!("{group:?}: {row:?}"));
                }
            }
            for (name, record) in &first {
                match effects.get(name) {
                    None => self.find(Finding::NotProcessed, || format!("{group:?}: {record:?}")),
                    Some(1) => {}
                    Some(times) => {
                        self.find(Finding::ProcessedTwice, || format!("{group:?}: {times} times: {record:?}"))
                    }
                }
            }
            self.check_processed_order(group, rows(), &first);
        }
    }

    /// A key is in one partition. A second effect is found as such, and says nothing about the order.
    fn check_processed_order<'a>(
        &mut self,
        group: Group,
        rows: impl Iterator<Item = &'a Processed>,
        first: &HashMap<MessageName, &Record>,
    ) {
        let mut last: HashMap<(i16, &str), &Record> = HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for row in rows.filter(|row| seen.insert(row.name())) {
            let (Some(key), Some(record)) = (row.key.as_deref(), first.get(&row.name())) else { continue };
            match last.insert((row.topic, key), record) {
                Some(before) if before.partition == record.partition && before.offset > record.offset => {
                    self.find(Finding::ProcessedInverted, || format!("{group:?}: {record:?} after {before:?}"));
                }
                _ => {}
            }
        }
    }
}
