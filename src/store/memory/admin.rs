use async_trait::async_trait;

use super::MemoryStore;
use super::faults::Call;
use crate::message::MessageId;
use crate::store::{AdminStore, Cancellation, StoreError};

#[async_trait]
impl AdminStore for MemoryStore {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        self.call(Call::Cancel, |state| state.cancel(message)).await
    }
}
