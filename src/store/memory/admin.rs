use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::MemoryStore;
use super::faults::Call;
use super::state::State;
use crate::message::{Envelope, MessageId};
use crate::store::{
    AdminStore, AuditRecord, CancelOutcome, DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter,
    DeadLetterGroup, KeyInLane, KeyNeighbours, LiveConditions, LiveCount, LiveMessage, LiveScan, LiveScanEnd,
    MessageKey, PausedTopic, Requeue, RowKey, RowRef, SchemaProblem, SendNowOutcome, StoreError,
};

#[async_trait]
impl AdminStore for MemoryStore {
    async fn cancel_delayed(
        &self,
        message: MessageId,
        record: Option<&AuditRecord>,
    ) -> Result<CancelOutcome, StoreError> {
        self.call(Call::CancelDelayed, |state| state.recorded(record, cancelled, |state| state.cancel_delayed(message)))
            .await
    }

    async fn send_now(
        &self,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<Option<SendNowOutcome>, StoreError> {
        let changed = |outcome: &Option<SendNowOutcome>| usize::from(*outcome == Some(SendNowOutcome::Due));
        self.call(Call::SendNow, |state| state.recorded(record, changed, |state| state.send_now(message, lease))).await
    }

    async fn cancel_waiting(
        &self,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<CancelOutcome, StoreError> {
        let cancel = |state: &mut State| state.cancel_waiting(message, lease);
        self.call(Call::CancelDelayed, |state| state.recorded(record, cancelled, cancel)).await
    }

    async fn live_messages(
        &self,
        scan: &LiveScan,
        conditions: &LiveConditions,
        rows_max: usize,
    ) -> Result<Vec<LiveMessage>, StoreError> {
        self.call(Call::ReadLive, |state| state.live_messages(scan, conditions, rows_max)).await
    }

    async fn live_scan_end(&self, scan: &LiveScan, rows_max: usize) -> Result<Option<LiveScanEnd>, StoreError> {
        self.call(Call::ReadLive, |state| state.live_scan_end(scan, rows_max)).await
    }

    async fn find_live(&self, message: MessageId) -> Result<Option<LiveMessage>, StoreError> {
        self.call(Call::ReadLive, |state| state.find_live(message)).await
    }

    async fn search_live(
        &self,
        message: MessageId,
        _: Option<i64>,
        _: usize,
    ) -> Result<(Option<LiveMessage>, Option<i64>), StoreError> {
        Ok((self.find_live(message).await?, None))
    }

    async fn find_live_row(&self, row: RowKey) -> Result<Option<LiveMessage>, StoreError> {
        let found = self.call(Call::ReadLive, |state| state.find_live(row.message_id)).await?;
        Ok(found.filter(|message| message.id == row.id))
    }

    async fn next_lane(&self, topic: &Arc<str>, from: u16) -> Result<Option<u16>, StoreError> {
        self.call(Call::ReadLive, |state| state.next_lane(topic, from)).await
    }

    async fn key_neighbours(&self, row: &KeyInLane, rows_max: usize) -> Result<KeyNeighbours, StoreError> {
        self.call(Call::ReadLive, |state| state.key_neighbours(row, rows_max)).await
    }

    async fn count_live(&self, topic: &Arc<str>, count_max: usize) -> Result<LiveCount, StoreError> {
        self.call(Call::ReadLive, |state| state.count_live(topic, count_max)).await
    }

    async fn count_due(
        &self,
        topic: &Arc<str>,
        from: SystemTime,
        before: SystemTime,
        count_max: usize,
    ) -> Result<usize, StoreError> {
        self.call(Call::ReadLive, |state| state.count_due(topic, from, before, count_max)).await
    }

    async fn live_topics(&self, topics_max: usize) -> Result<Vec<Arc<str>>, StoreError> {
        self.call(Call::ReadLive, |state| state.live_topics(topics_max)).await
    }

    async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        until: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.call(Call::ReadDeadLetters, |state| state.dead_letters(filter, after, until, rows_max)).await
    }

    async fn dead_letter_scan_end(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows: usize,
    ) -> Result<Option<DeadLetterCursor>, StoreError> {
        let read = |state: &mut State| state.dead_letters(&filter.indexed(), after, None, rows);
        let letters = self.call(Call::ReadDeadLetters, read).await?;
        Ok(letters.last().filter(|_| letters.len() == rows).map(DeadLetter::cursor))
    }

    async fn dead_letter_cursors(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterCursor>, StoreError> {
        let letters =
            self.call(Call::ReadDeadLetters, |state| state.dead_letters(filter, after, None, rows_max)).await?;
        Ok(letters.iter().map(DeadLetter::cursor).collect())
    }

    async fn now(&self) -> Result<SystemTime, StoreError> {
        Ok(MemoryStore::now(self))
    }

    async fn find_dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError> {
        self.call(Call::ReadDeadLetters, |state| state.find_dead_letter(message)).await
    }

    async fn count_dead_letters(&self) -> Result<Vec<DeadLetterCount>, StoreError> {
        self.call(Call::CountDeadLetters, |state| state.count_dead_letters()).await
    }

    async fn group_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.call(Call::CountDeadLetters, |state| state.group_dead_letters(filter, rows_max)).await
    }

    async fn dead_letter_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError> {
        self.call(Call::ReadDeadLetters, |state| state.dead_letter_keys(messages)).await
    }

    async fn redrive(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<RowRef>, StoreError> {
        self.call(Call::Redrive, |state| state.recorded(record, Vec::len, |state| state.redrive(requeues))).await
    }

    async fn purge(&self, messages: &[MessageId], record: Option<&AuditRecord>) -> Result<usize, StoreError> {
        self.call(Call::Purge, |state| state.recorded(record, |rows| *rows, |state| state.purge(messages))).await
    }

    async fn replace(
        &self,
        letter: MessageId,
        by: &Envelope,
        lane: Option<u16>,
        record: Option<&AuditRecord>,
    ) -> Result<bool, StoreError> {
        let replace = |state: &mut State| state.replace(letter, by, lane);
        self.call(Call::Replace, |state| state.recorded(record, |is_done| usize::from(*is_done), replace)).await
    }

    async fn pause(&self, topic: &Arc<str>, record: Option<&AuditRecord>) -> Result<(), StoreError> {
        let pause = |state: &mut State| state.pause(topic);
        self.call(Call::Pause, |state| state.recorded(record, |is_new| usize::from(*is_new), pause)).await.map(drop)
    }

    async fn resume(&self, topic: &Arc<str>, record: Option<&AuditRecord>) -> Result<bool, StoreError> {
        let resume = |state: &mut State| state.resume(topic);
        self.call(Call::Pause, |state| state.recorded(record, |was_there| usize::from(*was_there), resume)).await
    }

    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError> {
        self.call(Call::Paused, |state| state.paused()).await
    }

    async fn schema_problems(&self) -> Result<Vec<SchemaProblem>, StoreError> {
        Ok(Vec::new())
    }
}

/// How many messages a cancel has removed.
fn cancelled(outcome: &CancelOutcome) -> usize {
    usize::from(matches!(outcome, CancelOutcome::Cancelled { .. }))
}
