use diesel::connection::{Connection, TransactionManager};
use diesel::result::Error;

use super::claims::ClaimAnswer;
use super::outcomes::Wanted;
use super::{Claim, Inbox, InboxError, InboxKey, Once};
use crate::enqueue::OutboxBackend;
use crate::hook::{Depth, SyncConn};
use crate::limits::{CLAIM_ATTEMPTS_MAX, CLAIM_ROWS_MAX};
use crate::outbox::transaction::{begin_checked, commit_checked};
use crate::outbox::write::error_after_rollback;

/// How an attempt ended before its handler ran.
pub(super) enum Attempt<T, E> {
    Ended(Result<T, E>),
    /// The database rolled back the claim because of others.
    Conflict(InboxError),
}

/// Handle messages.
impl Inbox {
    /// Runs `handler` in a transaction, unless the message was handled before. If the handler returns `Ok`, its work and the message's
    /// entry commit together; if it returns `Err`, neither does, and the message can be handled again.
    ///
    /// If another process is handling the same message, this waits for it. Inside an open transaction it is a savepoint.
    ///
    /// The handler must write on `conn` alone. What it does elsewhere is done again if the transaction fails to commit.
    ///
    /// The [module](super) has an example.
    ///
    /// # Errors
    /// Returns what `handler` returns, or the database's error. Returns [`InboxError::TooOld`] if the message is older than what is kept;
    /// then the handler does not run. Returns [`InboxError::TransactionAborted`] or [`InboxError::TransactionLost`] if the handler
    /// returned `Ok` although an error had ended its transaction.
    ///
    /// If the database rolls back the claim because of other transactions, it is tried again, up to eight times. The handler has not
    /// run then. If the handler or COMMIT fails like this, it is the caller's to try again: [`InboxError::is_retriable`] tells.
    pub fn once<C, T, E>(
        &self,
        conn: &mut C,
        id: impl Into<InboxKey>,
        handler: impl FnOnce(&mut C) -> Result<T, E>,
    ) -> Result<Once<T>, E>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        E: From<InboxError> + From<Error>,
    {
        let (key, mut handler) = (id.into(), Some(handler));
        let attempts_max = if Depth::of(&mut SyncConn(conn))?.depth == 0 { CLAIM_ATTEMPTS_MAX } else { 1 };
        let mut attempt = 1;
        loop {
            begin_checked(conn)?;
            let error = match self.attempt(conn, key, &mut handler) {
                Attempt::Ended(Ok(once)) => {
                    commit_checked(conn).map_err(|error| self.not_committed(error))?;
                    return Ok(once);
                }
                Attempt::Ended(Err(error)) => {
                    return Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn)));
                }
                Attempt::Conflict(error) => {
                    error_after_rollback(error, C::TransactionManager::rollback_transaction(conn))
                }
            };
            if attempt == attempts_max || !error.is_retriable() {
                return Err(error.into());
            }
            attempt += 1;
        }
    }

    fn attempt<C, T, E>(
        &self,
        conn: &mut C,
        key: InboxKey,
        handler: &mut Option<impl FnOnce(&mut C) -> Result<T, E>>,
    ) -> Attempt<Once<T>, E>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        E: From<InboxError>,
    {
        match self.claim(conn, key) {
            Ok(Claim::New) => match handler.take() {
                Some(handler) => Attempt::Ended(handler(conn).map(Once::Done)),
                None => Attempt::Ended(Ok(Once::Duplicate)),
            },
            Ok(Claim::Duplicate) => Attempt::Ended(Ok(Once::Duplicate)),
            Err(error) if error.is_retriable() => Attempt::Conflict(error),
            Err(error) => Attempt::Ended(Err(error.into())),
        }
    }

    /// Claims a message in the caller's transaction: writes its entry, which commits or rolls back with the handler's work. Make it the
    /// first statement of the transaction, because it waits for another process that is handling the same message.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::MessageId;
    /// use diesel_outbox::inbox::{Claim, Inbox, InboxError};
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # let inbox = Inbox::builder("billing").build()?;
    /// # inbox.migrate(&mut conn)?;
    /// # let message_id = MessageId::new();
    ///
    /// conn.transaction(|conn| match inbox.claim(conn, message_id)? {
    ///     Claim::New => Ok(()), // first handle it, on the same connection
    ///     Claim::Duplicate => Ok::<_, InboxError>(()),
    /// })?;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`InboxError::TooOld`] if the message is older than what is kept, and [`InboxError::NotInTransaction`] outside a
    /// transaction. Return an error from the closure, so that the transaction rolls back: the claim of a message that is too old may have
    /// written its entry.
    ///
    /// On PostgreSQL in REPEATABLE READ or SERIALIZABLE, a claim that waited for another one fails (40001) where it would find a duplicate in
    /// READ COMMITTED. On MySQL a deadlock rolls back the whole transaction. [`InboxError::is_retriable`] is true for both: run the whole
    /// transaction again.
    pub fn claim<C>(&self, conn: &mut C, id: impl Into<InboxKey>) -> Result<Claim, InboxError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        let claims = self.claim_all(conn, &Wanted::new([id.into()]))?;
        Ok(claims.into_iter().next().unwrap_or(Claim::Duplicate))
    }

    /// Claims several messages with one statement for each thousand; returns what it found for each, in the order of `ids`. An id that is
    /// there twice is new once.
    ///
    /// # Errors
    /// As for [`claim`](Self::claim). One message that is too old fails all of them: roll back, and claim them one by one.
    pub fn claim_many<C, K>(&self, conn: &mut C, ids: &[K]) -> Result<Vec<Claim>, InboxError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        K: Into<InboxKey> + Clone,
    {
        self.claim_all(conn, &Wanted::new(ids.iter().cloned().map(Into::into)))
    }

    fn claim_all<C>(&self, conn: &mut C, wanted: &Wanted) -> Result<Vec<Claim>, InboxError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        self.check_in_transaction(&mut SyncConn(conn))?;
        let mut answer = ClaimAnswer::default();
        for keys in wanted.statements(CLAIM_ROWS_MAX) {
            let claimed = C::Backend::claim_keys(conn, self.claimed_keys(keys));
            answer = answer.merge(claimed.map_err(|error| self.refused::<C::Backend>(error))?);
        }
        self.outcomes(wanted, answer)
    }

    /// Handles several messages in one transaction: claims them with one statement, and gives `handler` those that are new. If that fails,
    /// each message has a transaction of its own, and `handler` is called for one at a time. Returns what became of each, in the order of
    /// `messages`.
    ///
    /// A batch of a hundred costs a fraction of a hundred calls of [`once`](Self::once), because it commits once.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel::result::Error;
    /// # use diesel_outbox::MessageId;
    /// use diesel_outbox::inbox::{Inbox, Once};
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # diesel::sql_query("CREATE TABLE invoices (order_id integer)").execute(&mut conn)?;
    /// # let inbox = Inbox::builder("billing").build()?;
    /// # inbox.migrate(&mut conn)?;
    ///
    /// let messages = [(MessageId::new(), 41), (MessageId::new(), 42)];
    /// let handled = inbox.once_many(&mut conn, &messages, |conn, orders| {
    ///     for order_id in orders {
    ///         diesel::sql_query(format!("INSERT INTO invoices VALUES ({order_id})")).execute(conn)?;
    ///     }
    ///     Ok::<_, Error>(())
    /// })?;
    /// assert!(handled.iter().all(|handled| *handled == Ok(Once::Done(()))));
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`InboxError::InTransaction`] inside a transaction: it has to roll back and begin again. An error of a single message is in
    /// that message's place.
    pub fn once_many<C, K, M, E>(
        &self,
        conn: &mut C,
        messages: &[(K, M)],
        mut handler: impl FnMut(&mut C, &[&M]) -> Result<(), E>,
    ) -> Result<Vec<Result<Once<()>, E>>, InboxError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        K: Into<InboxKey> + Clone,
        E: From<InboxError> + From<Error>,
    {
        self.check_no_transaction(&mut SyncConn(conn), "once_many")?;
        if messages.len() > 1 {
            let wanted = Wanted::new(messages.iter().map(|(id, _)| id.clone().into()));
            match self.handle_all(conn, &wanted, messages, &mut handler) {
                Ok::<_, E>(claims) => return Ok(claims.into_iter().map(|claim| Ok(once(claim))).collect()),
                Err(_) => note_failed_batch(messages.len()),
            }
        }
        let single = |(id, message): &(K, M)| self.once(conn, id.clone(), |conn| handler(conn, &[message]));
        Ok(messages.iter().map(single).collect())
    }

    fn handle_all<C, K, M, E>(
        &self,
        conn: &mut C,
        wanted: &Wanted,
        messages: &[(K, M)],
        handler: &mut impl FnMut(&mut C, &[&M]) -> Result<(), E>,
    ) -> Result<Vec<Claim>, E>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        E: From<InboxError> + From<Error>,
    {
        begin_checked(conn)?;
        let handled = match self.claim_all(conn, wanted) {
            Ok(claims) => {
                let new = new_of(messages, &claims);
                if new.is_empty() { Ok(claims) } else { handler(conn, &new).map(|()| claims) }
            }
            Err(error) => Err(error.into()),
        };
        match handled {
            Ok(claims) => {
                commit_checked(conn).map_err(|error| self.not_committed(error))?;
                Ok(claims)
            }
            Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn))),
        }
    }
}

/// The messages that are new.
pub(super) fn new_of<'m, K, M>(messages: &'m [(K, M)], claims: &[Claim]) -> Vec<&'m M> {
    let claimed = messages.iter().zip(claims).filter(|(_, claim)| **claim == Claim::New);
    claimed.map(|((_, message), _)| message).collect()
}

/// The error is not logged: it shows again with the message that has it.
pub(super) fn note_failed_batch(messages: usize) {
    tracing::debug!(messages, "a batch of the inbox failed: one by one");
}

pub(super) fn once(claim: Claim) -> Once<()> {
    match claim {
        Claim::New => Once::Done(()),
        Claim::Duplicate => Once::Duplicate,
    }
}
