//! Decides about each candidate after it was looked up again.

use std::collections::HashSet;
use std::time::SystemTime;

use diesel_outbox::MessageId;

use crate::candidates::Candidates;
use crate::compare::{Pair, Phantoms};
use crate::entry::{Entry, Millis, Placed};
use crate::error::VerifyError;
use crate::finding::{Finding, RecordPlace, RowPlace};
use crate::limits::EARLY_MIN;
use crate::lookup::{FoundRow, Lookup, instant, place_of};
use crate::source::{Partition, RecordSource};

/// What is left of the candidates of a verdict, and whether there may be more.
pub(crate) type Checked = (Vec<Finding>, bool);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(crate) lookup: Lookup<'a>,
    pub(crate) partitions: &'a [Partition],
}

impl Check<'_> {
    /// Sent messages without a record: their rows are still there, and the topic does not have them now either.
    pub(crate) async fn lost(
        &self,
        source: &mut dyn RecordSource,
        candidates: Candidates<Entry>,
    ) -> Result<Checked, VerifyError> {
        let is_cut = candidates.is_cut();
        let mut rows: Vec<RowPlace> = Vec::new();
        for row in candidates.kept {
            let found = self.lookup.sent(row.message_id()).await?;
            rows.extend(found.map(|found| found.place).filter(|place| place.row_id == Some(row.position)));
        }
        if !rows.is_empty() {
            // A broker may show a record a moment after it has acknowledged it.
            let mut wanted: HashSet<MessageId> = rows.iter().map(|row| row.message_id).collect();
            source.move_ends().await?;
            loop {
                let records = source.next().await?;
                if records.is_empty() {
                    break;
                }
                for message_id in records.iter().filter_map(|record| record.message_id) {
                    wanted.remove(&message_id);
                }
            }
            rows.retain(|row| wanted.contains(&row.message_id));
        }
        Ok((rows.into_iter().map(|row| Finding::Lost { row }).collect(), is_cut))
    }

    /// Records without a row, and how many records may have had one that the history has no more.
    pub(crate) async fn phantoms(
        &self,
        phantoms: Phantoms,
        history_since: Option<Millis>,
        foreign: Candidates<RecordPlace>,
    ) -> Result<(Checked, u64), VerifyError> {
        let total = phantoms.total;
        let latest = phantoms.into_latest();
        let not_kept = total - latest.len() as u64;
        // What was not kept is as old as the first that was kept, or older.
        let earliest = latest.first().map(|record| record.at);
        let (late, old): (Vec<Entry>, Vec<Entry>) = self
            .lookup
            .without_row(latest)
            .await?
            .into_iter()
            .partition(|record| history_since.is_some_and(|since| record.at >= since));
        let is_rest_old = history_since.is_none_or(|since| earliest.is_some_and(|earliest| earliest < since));
        let older = old.len() as u64 + if is_rest_old { not_kept } else { 0 };
        let more = foreign.is_cut() || (not_kept > 0 && !is_rest_old);
        let without_id = foreign.kept.into_iter().map(|record| Finding::Phantom { record, message_id: None });
        let with_id = late
            .iter()
            .map(|record| Finding::Phantom { record: self.place(record), message_id: Some(record.message_id()) });
        Ok(((with_id.chain(without_id).collect(), more), older))
    }

    /// Messages of a key in another order than their rows.
    pub(crate) async fn reordered(&self, candidates: Candidates<(Placed, Placed)>) -> Result<Checked, VerifyError> {
        let (mut findings, is_cut) = (Vec::new(), candidates.is_cut());
        for (earlier, later) in candidates.kept {
            let row = self.lookup.sent(earlier.message_id()).await?;
            let later_row = self.lookup.sent(later.message_id()).await?;
            let is_unchanged =
                |row: &FoundRow, placed: &Placed| row.place.row_id == Some(placed.row) && !row.is_requeued;
            if let (Some(row), Some(later_row)) = (row, later_row)
                && is_unchanged(&row, &earlier)
                && is_unchanged(&later_row, &later)
                && row.key == later_row.key
            {
                let [record, later_record] =
                    [earlier, later].map(|copy| place(self.partitions, copy.partition, copy.offset, instant(copy.at)));
                let (row, later_row) = (row.place, later_row.place);
                findings.push(Finding::Reordered { row, record, later_row, later_record });
            }
        }
        Ok((findings, is_cut))
    }

    /// Records that differ from their rows.
    pub(crate) async fn altered(&self, candidates: Candidates<Pair>) -> Result<Checked, VerifyError> {
        let (mut findings, is_cut) = (Vec::new(), candidates.is_cut());
        for Pair { row, record } in candidates.kept {
            let Some(found) = self.lookup.row(&row).await? else { continue };
            let parts = found.content.differences(record.content);
            if !parts.is_empty() {
                findings.push(Finding::Altered { row: found.place, record: self.place(&record), parts });
            }
        }
        Ok((findings, is_cut))
    }

    /// Records that are older than the delivery time of their message.
    pub(crate) async fn early(&self, candidates: Candidates<Pair>) -> Result<Checked, VerifyError> {
        let (mut findings, is_cut) = (Vec::new(), candidates.is_cut());
        for Pair { row, record } in candidates.kept {
            let Some(mut found) = self.lookup.row(&row).await? else { continue };
            // Of a dead letter, only the record knows it.
            let deliver_at = found.place.deliver_at.map_or(record.deliver_at, Millis::of);
            if record.at.plus(EARLY_MIN) < deliver_at {
                found.place.deliver_at = found.place.deliver_at.or(deliver_at.at());
                findings.push(Finding::Early { row: found.place, record: self.place(&record) });
            }
        }
        Ok((findings, is_cut))
    }

    pub(crate) fn doubled(&self, (Pair { row, record }, copies): &(Pair, u64)) -> Finding {
        Finding::Doubled { row: place_of(row), record: self.place(record), copies: *copies }
    }

    fn place(&self, record: &Entry) -> RecordPlace {
        place(self.partitions, record.partition, record.position, instant(record.at))
    }
}

/// Where a record is, with the name of its partition.
pub(crate) fn place(partitions: &[Partition], partition: u32, offset: i64, at: SystemTime) -> RecordPlace {
    let of = usize::try_from(partition).ok().and_then(|index| partitions.get(index));
    RecordPlace { partition: of.map_or_else(|| partition.to_string(), |of| of.name.clone()), offset, at }
}
