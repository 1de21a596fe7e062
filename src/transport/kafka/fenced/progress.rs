//! What an exactly-once lane has delivered, as each of its transactions stores it.

use std::sync::Arc;

use super::job::Job;
use crate::limits::{KAFKA_PROGRESS_PREFIX, KAFKA_PROGRESS_ROWS_MAX};
use crate::transport::{DeliveredRows, LaneName, OutboxRow, OutboxRowId};

/// The layout of a record: this byte, and then the ids.
const VERSION: u8 = 1;

/// What a record takes beside the ids: key, headers and framing.
const RECORD_BYTES: usize = 1_000;

/// The topic in which the lanes of a topic note what they delivered.
pub(in crate::transport::kafka) fn topic_of(topic: &str) -> Arc<str> {
    format!("{KAFKA_PROGRESS_PREFIX}{topic}").into()
}

/// Where a lane's progress is.
#[derive(Debug, Clone)]
pub(super) struct ProgressPlace {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    /// The lane's transactional id: two outboxes may share a topic.
    pub(super) key: String,
}

impl ProgressPlace {
    pub(super) fn new(lane: &LaneName, id: &str) -> Self {
        Self { topic: topic_of(&lane.topic), partition: i32::from(lane.lane), key: id.to_owned() }
    }
}

/// What a lane has delivered, and where it notes that.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) place: ProgressPlace,
    pub(super) delivered: DeliveredRows,
    /// How many rows fit a record.
    rows_max: usize,
}

impl Progress {
    /// `record_bytes_max` is the most bytes of a record.
    pub(super) fn new(place: ProgressPlace, rows: Vec<OutboxRow>, record_bytes_max: usize) -> Self {
        let fit = record_bytes_max.saturating_sub(RECORD_BYTES) / size_of::<OutboxRowId>();
        Self { place, delivered: DeliveredRows::of(rows), rows_max: fit.clamp(1, KAFKA_PROGRESS_ROWS_MAX) }
    }

    /// Notes what a transaction delivered.
    pub(super) fn add<'a>(&mut self, delivered: impl Iterator<Item = &'a Job>) {
        delivered.filter_map(|job| job.row.clone()).for_each(|row| self.delivered.add(row));
    }

    /// How many more rows it can note.
    pub(super) fn room(&mut self) -> usize {
        self.rows_max.saturating_sub(self.delivered.forget_settled())
    }

    /// The record of a transaction that delivers these.
    pub(super) fn record<'a>(&self, delivering: impl Iterator<Item = &'a Job>) -> Vec<u8> {
        let delivering = delivering.filter_map(|job| job.row.as_ref()).map(OutboxRow::id);
        self.delivered.ids().chain(delivering).fold(vec![VERSION], |mut record, id| {
            record.extend_from_slice(&id);
            record
        })
    }
}

/// The ids of a record; `None` if another version of this library wrote it.
pub(super) fn rows_of(record: &[u8]) -> Option<Vec<OutboxRowId>> {
    let (version, ids) = record.split_first()?;
    let (ids, rest) = ids.as_chunks();
    (*version == VERSION && rest.is_empty()).then(|| ids.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::job;
    use super::*;
    use crate::message::MessageId;
    use crate::store::RowKey;
    use crate::transport::KeySequence;

    fn row(id: i64) -> OutboxRow {
        OutboxRow::new(RowKey { id, message_id: MessageId::new() })
    }

    fn progress(rows: Vec<OutboxRow>) -> Progress {
        let lane = LaneName { outbox: "outbox_messages".into(), topic: "ledger".into(), lane: 3 };
        Progress::new(ProgressPlace::new(&lane, "diesel-outbox/outbox_messages/ledger/3"), rows, 1_000_000)
    }

    #[test]
    fn a_record_has_what_is_delivered_and_what_it_delivers() {
        let (recovered, sent, sending) = (row(1), row(2), row(3));
        let mut progress = progress(vec![recovered.clone()]);
        let of = |row: &OutboxRow| Job { row: Some(row.clone()), ..job(1, &KeySequence::new()) };
        progress.add([of(&sent)].iter());
        let mut rows = rows_of(&progress.record([of(&sending)].iter())).unwrap();
        rows.sort_unstable();
        assert_eq!(rows, [recovered.id(), sent.id(), sending.id()]);
        assert_eq!(progress.room(), KAFKA_PROGRESS_ROWS_MAX - 2);
        sent.settle();
        assert_eq!(progress.room(), KAFKA_PROGRESS_ROWS_MAX - 1);
    }

    #[test]
    fn a_record_is_no_larger_than_the_client_allows() {
        let lane = LaneName { outbox: "outbox_messages".into(), topic: "ledger".into(), lane: 3 };
        for (bytes_max, rows) in [(100_000_000, KAFKA_PROGRESS_ROWS_MAX), (3_400, 100), (0, 1)] {
            let mut progress = Progress::new(ProgressPlace::new(&lane, "diesel-outbox/3"), Vec::new(), bytes_max);
            assert_eq!(progress.room(), rows, "{bytes_max}");
        }
    }

    #[test]
    fn a_record_of_another_version_is_not_read() {
        assert_eq!(rows_of(&[VERSION]), Some(Vec::new()));
        for record in [&[][..], &[VERSION + 1], &[VERSION, 0], &[VERSION; 24]] {
            assert_eq!(rows_of(record), None, "{record:?}");
        }
    }
}
