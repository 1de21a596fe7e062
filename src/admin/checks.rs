use super::{Admin, AdminError};
use crate::store::{SchemaProblem, StoreWarning};

/// Checks of the database.
impl Admin {
    /// What is wrong with the tables: which are missing, with the migration that creates each, and which have another version. Nothing
    /// if all are there. An outbox that uses no ordered topics, half messages, pauses, history or audit needs only the tables of
    /// messages and dead letters.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// for problem in admin.check_tables().await? {
    ///     println!("{problem}");
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn check_tables(&self) -> Result<Vec<SchemaProblem>, AdminError> {
        Ok(self.admin_store()?.schema_problems().await?)
    }

    /// Checks what a relay checks at its start: that the tables of messages and dead letters have this version, and that the database
    /// can be written and keeps what it commits. Returns settings that break a guarantee.
    ///
    /// # Errors
    /// A database error, or what a relay would refuse ([`StoreError::Schema`](crate::store::StoreError::Schema)).
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn check_settings(&self) -> Result<Vec<StoreWarning>, AdminError> {
        Ok(self.store.check().await?)
    }
}
