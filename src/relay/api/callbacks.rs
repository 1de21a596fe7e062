use std::sync::Arc;
use std::time::Duration;

use super::builder::RelayBuilder;
use crate::relay::dead_letter_callbacks::{AlertThreshold, DeadLetterAlert, DeadLetterEvent};

/// Being told of dead letters.
impl RelayBuilder {
    /// Calls `callback` for each message that this relay gives up, when it is in the table of dead letters.
    ///
    /// It is called on a thread of its own, one letter after the other, and may block: nothing waits for it but the next
    /// letter. Up to 1,024 wait for it; what comes beyond is counted (`outbox_dead_letter_callbacks_lost_total`) and not told, and so
    /// is one at which it panics. A crash can lose some, too: the table has all of them, those of other processes included
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

    /// Calls `callback` when this relay gives up more than `letters_max` messages within `window_duration`, once for each such
    /// window; logs an ERROR, and counts it (`outbox_dead_letter_alerts_total`).
    ///
    /// It is called as that of [`on_dead_letter`](Self::on_dead_letter). Only messages of this process count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let relay = outbox.relay().dead_letter_alert(10, Duration::from_secs(60), |alert| {
    ///     eprintln!("more than {} in {:?}, the last: {}", alert.letters_max, alert.window_duration, alert.last.reason);
    /// });
    /// # drop(relay);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn dead_letter_alert(
        mut self,
        letters_max: u16,
        window_duration: Duration,
        callback: impl Fn(&DeadLetterAlert) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.alert = Some(AlertThreshold { letters_max, window_duration, on_alert: Arc::new(callback) });
        self
    }
}
