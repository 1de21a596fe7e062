use super::history::{SentPage, Unprocessed};
use super::{AdminError, BlockingAdmin, RedrivePace};
use crate::message::MessageId;
use crate::store::{Marking, SentCount, SentMark, SentMessage};

/// The history of topics that [keep](crate::Topic::keep_sent_days) what was sent.
impl BlockingAdmin {
    /// As [`Admin::sent`](super::Admin::sent).
    ///
    /// # Errors
    /// As [`Admin::sent`](super::Admin::sent).
    pub fn sent(&self, message_id: MessageId) -> Result<SentMessage, AdminError> {
        self.runtime.block_on(self.admin.sent(message_id))
    }

    /// As [`Admin::sent_of_key`](super::Admin::sent_of_key).
    ///
    /// # Errors
    /// As [`Admin::sent_of_key`](super::Admin::sent_of_key).
    pub fn sent_of_key(
        &self,
        topic: &str,
        key: &str,
        after: Option<&SentMark>,
        messages_max: usize,
    ) -> Result<SentPage, AdminError> {
        self.runtime.block_on(self.admin.sent_of_key(topic, key, after, messages_max))
    }

    /// As [`Admin::count_sent`](super::Admin::count_sent).
    ///
    /// # Errors
    /// As [`Admin::count_sent`](super::Admin::count_sent).
    pub fn count_sent(&self, topic: &str, count_max: usize) -> Result<SentCount, AdminError> {
        self.runtime.block_on(self.admin.count_sent(topic, count_max))
    }

    /// As [`Admin::mark_processed`](super::Admin::mark_processed).
    ///
    /// # Errors
    /// As [`Admin::mark_processed`](super::Admin::mark_processed).
    pub fn mark_processed(&self, message_id: MessageId) -> Result<Marking, AdminError> {
        self.runtime.block_on(self.admin.mark_processed(message_id))
    }

    /// As [`Admin::mark_all_processed`](super::Admin::mark_all_processed).
    ///
    /// # Errors
    /// As [`Admin::mark_all_processed`](super::Admin::mark_all_processed).
    pub fn mark_all_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, AdminError> {
        self.runtime.block_on(self.admin.mark_all_processed(messages))
    }

    /// As [`Admin::unprocessed`](super::Admin::unprocessed).
    ///
    /// # Errors
    /// As [`Admin::unprocessed`](super::Admin::unprocessed).
    pub fn unprocessed(
        &self,
        which: &Unprocessed,
        after: Option<&SentMark>,
        messages_max: usize,
    ) -> Result<SentPage, AdminError> {
        self.runtime.block_on(self.admin.unprocessed(which, after, messages_max))
    }

    /// As [`Admin::send_again`](super::Admin::send_again).
    ///
    /// # Errors
    /// As [`Admin::send_again`](super::Admin::send_again).
    pub fn send_again(&self, message_id: MessageId) -> Result<(), AdminError> {
        self.runtime.block_on(self.admin.send_again(message_id))
    }

    /// As [`Admin::send_all_again`](super::Admin::send_all_again).
    ///
    /// # Errors
    /// As [`Admin::send_all_again`](super::Admin::send_all_again).
    pub fn send_all_again(
        &self,
        which: &Unprocessed,
        pace: RedrivePace,
        progress: impl FnMut(usize) + Send,
    ) -> Result<usize, AdminError> {
        self.runtime.block_on(self.admin.send_all_again(which, pace, progress))
    }
}
