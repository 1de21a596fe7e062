//! Compares rows and records message by message.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::Duration;

use crate::candidates::Candidates;
use crate::entry::{Entry, Millis, Origin, Placed};
use crate::limits::EARLY_MIN;
use crate::sorter::{SortLimits, Sorted, Sorter};

/// What can be told, and from when on.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Older records were removed from the topic: it has all of the messages enqueued from then on.
    pub(crate) complete_from: Option<Millis>,
    /// Records are removed that are not old.
    pub(crate) is_compacted: bool,
    /// A part of the topic could not be read.
    pub(crate) is_unread: bool,
    /// When the comparison began, by the database's clock.
    pub(crate) started_at: Millis,
    /// How long a record stays invisible after it was sent.
    pub(crate) delay: Duration,
    /// Candidates that are kept of each verdict.
    pub(crate) findings_max: usize,
}

/// A row and a record of one message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) row: Entry,
    pub(crate) record: Entry,
}

/// The outcome. Messages move between tables while they are read, so every candidate is looked up again.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) matched: u64,
    pub(crate) lost: Candidates<Entry>,
    pub(crate) altered: Candidates<Pair>,
    pub(crate) early: Candidates<Pair>,
    /// With the number of records.
    pub(crate) doubled: Candidates<(Pair, u64)>,
    pub(crate) phantoms: Phantoms,
    /// Sent messages without a record, older than the topic's first one.
    pub(crate) before_topic: u64,
    /// Sent messages without a record in a compacted topic.
    pub(crate) compacted: u64,
    /// Sent messages without a record in what was read.
    pub(crate) unread: u64,
    /// The time of the first record that has a row in the history.
    pub(crate) history_since: Option<Millis>,
    /// Messages of ordered topics.
    pub(crate) order: Sorter<Placed>,
}

/// Records without a row. Those older than the history are none, and how far it goes back is known in the end only: so the latest are
/// kept.
#[derive(Debug, Default)]
pub(crate) struct Phantoms {
    latest: BinaryHeap<Reverse<(Millis, Entry)>>,
    pub(crate) total: u64,
}

impl Phantoms {
    fn push(&mut self, record: Entry, max: usize) {
        self.total += 1;
        self.latest.push(Reverse((record.at, record)));
        if self.latest.len() > max {
            self.latest.pop();
        }
    }

    /// The latest ones, the earliest of them first.
    pub(crate) fn into_latest(self) -> Vec<Entry> {
        let mut latest: Vec<Entry> = self.latest.into_iter().map(|Reverse((_, record))| record).collect();
        latest.sort_unstable_by_key(|record| (record.at, *record));
        latest
    }
}

/// Compares the sorted rows and records. It blocks.
pub(crate) fn compare(entries: Sorted<Entry>, rules: &Rules, sort: &SortLimits) -> io::Result<Joined> {
    let max = rules.findings_max;
    let mut joined = Joined {
        matched: 0,
        lost: Candidates::new(max),
        altered: Candidates::new(max),
        early: Candidates::new(max),
        doubled: Candidates::new(max),
        phantoms: Phantoms::default(),
        before_topic: 0,
        compacted: 0,
        unread: 0,
        history_since: None,
        order: Sorter::new(sort),
    };
    let mut message: Option<Message> = None;
    for entry in entries {
        let entry = entry?;
        match &mut message {
            Some(message) if message.is_of(&entry) => message.push(entry),
            _ => {
                if let Some(done) = message.replace(Message::new(entry)) {
                    joined.judge(&done, rules)?;
                }
            }
        }
    }
    if let Some(done) = message {
        joined.judge(&done, rules)?;
    }
    Ok(joined)
}

/// The rows and records of one message.
struct Message {
    /// One of each table.
    rows: [Option<Entry>; 3],
    /// The first record; of those in several partitions, the one with the earliest time.
    first: Option<Entry>,
    /// A record in another partition.
    elsewhere: Option<Entry>,
    copies: u64,
    /// The first record that equals no row.
    altered: Option<Entry>,
    early: Option<Entry>,
}

impl Message {
    fn new(entry: Entry) -> Self {
        let mut message = Self { rows: [None; 3], first: None, elsewhere: None, copies: 0, altered: None, early: None };
        message.push(entry);
        message
    }

    fn is_of(&self, entry: &Entry) -> bool {
        let known = self.row().or(self.first.as_ref());
        known.is_some_and(|known| known.message_id() == entry.message_id())
    }

    /// The row that counts: a message in the history was sent, whatever became of it since.
    fn row(&self) -> Option<&Entry> {
        self.rows.iter().flatten().next()
    }

    /// Rows come before records.
    fn push(&mut self, entry: Entry) {
        match entry.origin {
            Origin::History | Origin::DeadLetters | Origin::Live => {
                self.rows[entry.origin as usize].get_or_insert(entry);
            }
            Origin::Topic => self.push_record(entry),
        }
    }

    fn push_record(&mut self, record: Entry) {
        self.copies += 1;
        match &mut self.first {
            None => self.first = Some(record),
            Some(first) if first.partition != record.partition => {
                self.elsewhere = Some(record);
                if record.at < first.at {
                    self.elsewhere = Some(std::mem::replace(first, record));
                }
            }
            // By offset, and not by time: two relays may have two clocks.
            Some(_) => {}
        }
        if self.row().is_some() && self.rows.iter().flatten().all(|row| row.content != record.content) {
            self.altered.get_or_insert(record);
        }
        let known = self.rows.iter().flatten().map(|row| row.deliver_at).max().filter(|at| *at != Millis::NEVER);
        let deliver_at = known.unwrap_or(record.deliver_at);
        if deliver_at != Millis::NEVER && record.at.plus(EARLY_MIN) < deliver_at {
            self.early.get_or_insert(record);
        }
    }
}

impl Joined {
    fn judge(&mut self, message: &Message, rules: &Rules) -> io::Result<()> {
        match (message.row(), message.first) {
            (Some(row), Some(first)) => self.judge_pair(message, Pair { row: *row, record: first }, rules),
            (Some(row), None) => {
                self.judge_row(row, rules);
                Ok(())
            }
            (None, Some(first)) => {
                self.phantoms.push(first, rules.findings_max);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn judge_pair(&mut self, message: &Message, first: Pair, rules: &Rules) -> io::Result<()> {
        let Pair { row, record } = first;
        self.matched += 1;
        if message.copies > 1 {
            self.doubled.push((first, message.copies));
        }
        if let Some(record) = message.altered {
            self.altered.push(Pair { row, record });
        }
        if let Some(record) = message.early {
            self.early.push(Pair { row, record });
        }
        if row.origin != Origin::History {
            return Ok(());
        }
        self.history_since = Some(self.history_since.map_or(record.at, |since| since.min(record.at)));
        // Of an older message, the first record may be gone.
        let is_complete = rules.complete_from.is_none_or(|from| row.due_from() >= from);
        if row.is_in_order() && is_complete && !rules.is_compacted {
            self.order.push(Placed::of(&row, &record))?;
            // The check of the order then finds its key in several partitions.
            message.elsewhere.map_or(Ok(()), |record| self.order.push(Placed::of(&row, &record)))?;
        }
        Ok(())
    }

    /// A row without a record.
    fn judge_row(&mut self, row: &Entry, rules: &Rules) {
        if row.origin != Origin::History {
            // It is not sent yet, or was given up.
        } else if rules.complete_from.is_some_and(|from| row.due_from() < from) {
            self.before_topic += 1;
        } else if rules.is_unread {
            self.unread += 1;
        } else if rules.is_compacted {
            self.compacted += 1;
        } else if row.at.plus(rules.delay) <= rules.started_at || rules.delay.is_zero() {
            self.lost.push(*row);
        }
    }
}
