use std::sync::Arc;
use std::time::Duration;

use super::builder::RelayBuilder;
use crate::relay::dead_letter_callbacks::{AlertThreshold, DeadLetterEvent};

/// Callbacks for dead letters.
impl RelayBuilder {
    /// Calls `callback` for each message that this relay dead-letters, once it is in the table of dead letters.
    ///
    /// The callback runs on its own thread, for one letter at a time. It may block: only the next letters wait for it. At most
    /// 1,024 letters wait. Further ones, and those for which it panics, are lost to the callback and counted
    /// (`outbox_dead_letter_callbacks_lost_total`). A crash can lose some, too. The table has all dead letters of all processes
    /// ([`Admin::dead_letters`](crate::admin::Admin::dead_letters)).
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::transport::MemoryTransport;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let relay = outbox
    ///     .relay()
    ///     .store(MemoryStore::new())
    ///     .transport(MemoryTransport::new())
    ///     .on_dead_letter(|letter| eprintln!("{} {}: {}", letter.topic, letter.message_id, letter.reason))
    ///     .start()
    ///     .await?;
    /// # drop(relay);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn on_dead_letter(mut self, callback: impl Fn(&DeadLetterEvent) + Send + Sync + 'static) -> Self {
        self.callbacks.on_dead_letter = Some(Arc::new(callback));
        self
    }

    /// Calls `callback` when this relay dead-letters more than `letters_max` messages within `window_duration`, once per such
    /// window, with the message that exceeded the threshold. It also logs an ERROR, and counts `outbox_dead_letter_alerts_total`.
    ///
    /// It is called like the callback of [`on_dead_letter`](Self::on_dead_letter). Only messages of this process count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let relay = outbox.relay().dead_letter_alert(10, Duration::from_secs(60), |last| {
    ///     eprintln!("more than ten dead letters in a minute, the last: {}", last.reason);
    /// });
    /// # drop(relay);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn dead_letter_alert(
        mut self,
        letters_max: u16,
        window_duration: Duration,
        callback: impl Fn(&DeadLetterEvent) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.alert = Some(AlertThreshold { letters_max, window_duration, on_alert: Arc::new(callback) });
        self
    }
}
