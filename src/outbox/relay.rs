use std::sync::Arc;
use std::time::Duration;

use super::Outbox;
use crate::relay::{FlushOutcome, RelayBuilder};

/// Send what was enqueued.
impl Outbox {
    /// Starts to configure a relay for this outbox. Give it a store and a transport, then start it.
    ///
    /// While a relay runs, new rows belong to this process and are sent right after COMMIT. Without one they are due at once, for
    /// the relays of other processes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use diesel_outbox::store::MemoryStore;
    /// use diesel_outbox::transport::MemoryTransport;
    /// use diesel_outbox::{Outbox, Topic};
    ///
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let relay = outbox.relay().store(MemoryStore::new()).transport(MemoryTransport::new()).start().await?;
    /// // .. the application runs ..
    /// let report = relay.shutdown(Duration::from_secs(10)).await;
    /// assert!(report.is_clean());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn relay(&self) -> RelayBuilder {
        RelayBuilder::new(self.topics().to_vec(), self.tables().clone(), Arc::clone(self.link()))
            .keep_audit_days(self.audit_policy().days)
            .know_shapes(self.known_shapes())
    }

    /// Waits until everything that was enqueued and committed so far has been sent and settled, at most `within`. For processes
    /// that end soon. You need no flush before a relay's shutdown.
    ///
    /// It also waits for rows that were left to the sweepers, for example in an outage, whichever process settles them. It does
    /// not wait for rows that the commit hook did not see, or for paused topics. If no relay runs in this process, it returns
    /// [`FlushOutcome::NoRelay`] at once.
    ///
    /// # Cancel safety
    /// Cancelling stops only the waiting.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        self.link().flush(within).await
    }
}
