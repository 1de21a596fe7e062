use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::MemoryStore;
use super::faults::Call;
use crate::message::{Envelope, MessageId};
use crate::store::{
    AdminStore, Cancellation, DeadCount, DeadFilter, DeadLetter, DeadMark, Hastening, Keyed, PausedTopic, Return,
    StoreError,
};

#[async_trait]
impl AdminStore for MemoryStore {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        self.call(Call::Cancel, |state| state.cancel(message)).await
    }

    async fn send_now(&self, message: MessageId, lease: Duration) -> Result<Hastening, StoreError> {
        self.call(Call::SendNow, |state| state.send_now(message, lease)).await
    }

    async fn dead_letters(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.call(Call::DeadLetters, |state| state.dead_letters(filter, after, rows_max)).await
    }

    async fn dead_marks(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        rows_max: usize,
    ) -> Result<Vec<DeadMark>, StoreError> {
        let letters = self.call(Call::DeadLetters, |state| state.dead_letters(filter, after, rows_max)).await?;
        Ok(letters.iter().map(DeadLetter::mark).collect())
    }

    async fn now(&self) -> Result<SystemTime, StoreError> {
        Ok(MemoryStore::now(self))
    }

    async fn dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError> {
        self.call(Call::DeadLetters, |state| state.dead_letter(message)).await
    }

    async fn count_dead(&self) -> Result<Vec<DeadCount>, StoreError> {
        self.call(Call::CountDead, |state| state.count_dead()).await
    }

    async fn dead_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        self.call(Call::DeadLetters, |state| state.dead_keys(messages)).await
    }

    async fn redrive(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        self.call(Call::Redrive, |state| state.redrive(back)).await
    }

    async fn purge(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        self.call(Call::Purge, |state| state.purge(messages)).await
    }

    async fn replace(&self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> Result<bool, StoreError> {
        self.call(Call::Replace, |state| state.replace(letter, by, lane)).await
    }

    async fn pause(&self, topic: &Arc<str>) -> Result<(), StoreError> {
        self.call(Call::Pause, |state| state.pause(topic)).await
    }

    async fn resume(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        self.call(Call::Pause, |state| state.resume(topic)).await
    }

    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError> {
        self.call(Call::Paused, |state| state.paused()).await
    }
}
