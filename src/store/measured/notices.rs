//! The calls by which relays wake each other.

use async_trait::async_trait;

use super::Measured;
use super::timer::Statement;
use crate::store::{NoticeStore, NoticeStream, StoreError};

impl Measured {
    fn notice_store(&self) -> &dyn NoticeStore {
        self.store.notices().unwrap_or_else(|| unreachable!("it is asked for only where there is one"))
    }
}

#[async_trait]
impl NoticeStore for Measured {
    async fn notify(&self, notices: &[String]) -> Result<(), StoreError> {
        self.timer.time(Statement::Notify, self.notice_store().notify(notices)).await
    }

    async fn listen(&self) -> Result<Box<dyn NoticeStream>, StoreError> {
        self.notice_store().listen().await
    }
}
