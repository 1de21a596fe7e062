use std::sync::Arc;
use std::time::Duration;

use super::Outbox;
use crate::relay::{FlushOutcome, RelayBuilder};

/// Sending what was enqueued.
impl Outbox {
    /// A relay of this outbox, to be given a store and a transport and started.
    ///
    /// While one runs, rows are born leased to this process and sent right after COMMIT; without one they are due at once
    /// for the relays of other processes.
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
    }

    /// Waits until everything enqueued and committed so far has been sent and settled, for `within` at most. For processes
    /// that end soon; one that shuts its relay down needs no flush before.
    ///
    /// What was left to the sweepers on its way, in an outage say, is waited for as well, whichever process settles it. Rows
    /// that the commit hook did not see are not, nor those of paused topics. Without a relay in this process there is nothing
    /// to wait for, and the outcome says so.
    ///
    /// # Cancel safety
    /// Cancelling stops the waiting only.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        self.link().flush(within).await
    }
}
