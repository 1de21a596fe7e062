#[cfg(feature = "postgres")]
use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use diesel::result::{Error, QueryResult};
#[cfg(feature = "postgres")]
use diesel_async::AsyncPgConnection;
use diesel_async::{AsyncConnection, TransactionManager};
use futures_util::future::BoxFuture;

use super::claims::ClaimAnswer;
use super::once::{Attempt, new_of, note_failed_batch, once};
use super::outcomes::Wanted;
use super::{Claim, Inbox, InboxError, InboxKey, Once};
use crate::enqueue::AsyncOutboxBackend;
use crate::hook::{AsyncConn, Depth};
use crate::limits::{CLAIM_ATTEMPTS_MAX, CLAIM_ROWS_MAX};
use crate::outbox::transaction::{AsyncFunc, TransactionConnection, begin_checked_async, commit_checked_async};
use crate::outbox::write::error_after_rollback;

/// Boxed, because rustc cannot yet prove that a future which holds the closure's own is `Send` (rust-lang/rust#100013).
fn call<'r, C, T, E, F>(handler: F, conn: &'r mut C) -> BoxFuture<'r, Result<T, E>>
where
    F: AsyncFunc<&'r mut C, Result<T, E>, Fut: Send> + 'r,
    T: 'r,
    E: 'r,
{
    Box::pin(handler(conn))
}

/// Handle messages, over diesel-async connections.
impl Inbox {
    /// Like [`once`](Self::once), over a diesel-async connection. On PostgreSQL BEGIN and the claim are sent together, which saves a round
    /// trip.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] {
    /// use diesel_async::{AsyncPgConnection, RunQueryDsl};
    /// use diesel_outbox::MessageId;
    /// use diesel_outbox::inbox::{Inbox, InboxError};
    ///
    /// async fn bill(conn: &mut AsyncPgConnection, inbox: &Inbox, message_id: MessageId) -> Result<(), InboxError> {
    ///     inbox
    ///         .once_async(conn, message_id, async |conn| {
    ///             diesel::sql_query("INSERT INTO invoices VALUES (42)").execute(conn).await?;
    ///             Ok::<_, InboxError>(())
    ///         })
    ///         .await?;
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`once`](Self::once).
    ///
    /// # Cancel safety
    /// A dropped future leaves the transaction open, or in the middle of COMMIT; such a connection is broken and pools discard it. The
    /// message arrives again, and is then new or a duplicate.
    pub fn once_async<'a, 'c, D, C, T, E, F>(
        &'c self,
        conn: &'c mut D,
        id: impl Into<InboxKey>,
        handler: F,
    ) -> impl Future<Output = Result<Once<T>, E>> + Send + 'c
    where
        D: TransactionConnection<Inner = C>,
        C: AsyncConnection + 'static,
        C::Backend: AsyncOutboxBackend<C>,
        for<'r> F: AsyncFnOnce(&'r mut C) -> Result<T, E> + AsyncFunc<&'r mut C, Result<T, E>, Fut: Send> + Send + 'a,
        T: Send + 'a,
        E: From<InboxError> + From<Error> + Send + 'a,
        'a: 'c,
    {
        let (conn, key) = (conn.inner(), id.into());
        async move {
            let mut handler = Some(handler);
            let attempts_max = if Depth::of(&mut AsyncConn(conn))?.depth == 0 { CLAIM_ATTEMPTS_MAX } else { 1 };
            let mut attempt = 1;
            loop {
                let ended = match self.begin_and_claim_async(conn, key).await? {
                    Ok(Claim::New) => match handler.take() {
                        Some(handler) => Attempt::Ended(call(handler, conn).await.map(Once::Done)),
                        None => Attempt::Ended(Ok(Once::Duplicate)),
                    },
                    Ok(Claim::Duplicate) => Attempt::Ended(Ok(Once::Duplicate)),
                    Err(error) if error.is_retriable() => Attempt::Conflict(error),
                    Err(error) => Attempt::Ended(Err(error.into())),
                };
                let error = match ended {
                    Attempt::Ended(Ok(once)) => {
                        commit_checked_async(conn).await.map_err(|error| self.not_committed(error))?;
                        return Ok(once);
                    }
                    Attempt::Ended(Err(error)) => {
                        let rolled_back = C::TransactionManager::rollback_transaction(conn).await;
                        return Err(error_after_rollback(error, rolled_back));
                    }
                    Attempt::Conflict(error) => {
                        error_after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)
                    }
                };
                if attempt == attempts_max || !error.is_retriable() {
                    return Err(error.into());
                }
                attempt += 1;
            }
        }
    }

    /// The outer error is one of BEGIN; with the inner one a transaction is open.
    async fn begin_and_claim_async<C>(&self, conn: &mut C, key: InboxKey) -> QueryResult<Result<Claim, InboxError>>
    where
        C: AsyncConnection + 'static,
        C::Backend: AsyncOutboxBackend<C>,
    {
        #[cfg(feature = "postgres")]
        if Depth::of(&mut AsyncConn(conn))?.depth == 0
            && let Some(conn) = (&mut *conn as &mut dyn Any).downcast_mut::<AsyncPgConnection>()
        {
            return self.begin_with_claim(conn, key).await;
        }
        begin_checked_async(conn).await?;
        Ok(self.claim_async(conn, key).await)
    }

    /// Like [`claim`](Self::claim), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`claim`](Self::claim).
    ///
    /// # Cancel safety
    /// Whether the entry is written is unknown then, but it commits only with the transaction. Discard the connection.
    pub fn claim_async<'a, C>(
        &'a self,
        conn: &'a mut C,
        id: impl Into<InboxKey>,
    ) -> impl Future<Output = Result<Claim, InboxError>> + Send + 'a
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        let wanted = Wanted::new([id.into()]);
        async move {
            let claims = self.claim_all_async(conn, &wanted).await?;
            Ok(claims.into_iter().next().unwrap_or(Claim::Duplicate))
        }
    }

    /// Like [`claim_many`](Self::claim_many), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`claim_many`](Self::claim_many).
    ///
    /// # Cancel safety
    /// As for [`claim_async`](Self::claim_async).
    pub fn claim_many_async<'a, C, K>(
        &'a self,
        conn: &'a mut C,
        ids: &[K],
    ) -> impl Future<Output = Result<Vec<Claim>, InboxError>> + Send + use<'a, C, K>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        K: Into<InboxKey> + Clone,
    {
        let wanted = Wanted::new(ids.iter().cloned().map(Into::into));
        async move { self.claim_all_async(conn, &wanted).await }
    }

    async fn claim_all_async<C>(&self, conn: &mut C, wanted: &Wanted) -> Result<Vec<Claim>, InboxError>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        self.check_in_transaction(&mut AsyncConn(conn))?;
        let mut answer = ClaimAnswer::default();
        for keys in wanted.statements(CLAIM_ROWS_MAX) {
            let claimed = C::Backend::claim_keys_async(conn, self.claimed_keys(keys)).await;
            answer = answer.merge(claimed.map_err(|error| self.refused::<C::Backend>(error))?);
        }
        self.outcomes(wanted, answer)
    }

    /// Like [`once_many`](Self::once_many), over a diesel-async connection. The handler returns a boxed future, because it may be called
    /// several times.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] {
    /// use diesel_async::{AsyncPgConnection, RunQueryDsl};
    /// use diesel_outbox::MessageId;
    /// use diesel_outbox::inbox::{Inbox, InboxError};
    ///
    /// async fn bill(conn: &mut AsyncPgConnection, inbox: &Inbox, orders: &[(MessageId, i64)]) -> Result<(), InboxError> {
    ///     let handled = inbox.once_many_async(conn, orders, |conn, orders| {
    ///         Box::pin(async move {
    ///             for order_id in orders {
    ///                 diesel::sql_query(format!("INSERT INTO invoices VALUES ({order_id})")).execute(conn).await?;
    ///             }
    ///             Ok::<_, InboxError>(())
    ///         })
    ///     });
    ///     for handled in handled.await? {
    ///         handled?;
    ///     }
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`once_many`](Self::once_many).
    ///
    /// # Cancel safety
    /// As for [`once_async`](Self::once_async). Messages before the one under way stay handled.
    #[expect(clippy::manual_async_fn, reason = "the signature says that the future is Send")]
    pub fn once_many_async<'a, C, K, M, E, F>(
        &'a self,
        conn: &'a mut C,
        messages: &'a [(K, M)],
        mut handler: F,
    ) -> impl Future<Output = Result<Vec<Result<Once<()>, E>>, InboxError>> + Send + 'a
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        K: Into<InboxKey> + Clone + Sync,
        M: Sync,
        F: for<'r> FnMut(&'r mut C, &'r [&'r M]) -> Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'r>>
            + Send
            + 'a,
        E: From<InboxError> + From<Error> + Send + 'a,
    {
        async move {
            self.check_no_transaction(&mut AsyncConn(conn), "once_many_async")?;
            if messages.len() > 1 {
                let wanted = Wanted::new(messages.iter().map(|(id, _)| id.clone().into()));
                match self.handle_all_async(conn, &wanted, messages, &mut handler).await {
                    Ok(claims) => return Ok(claims.into_iter().map(|claim| Ok(once(claim))).collect()),
                    Err(_) => note_failed_batch(messages.len()),
                }
            }
            let mut handled = Vec::with_capacity(messages.len());
            for (id, message) in messages {
                let key = id.clone().into();
                handled.push(self.handle_one_async(conn, key, message, &mut handler).await);
            }
            Ok(handled)
        }
    }

    async fn handle_all_async<C, K, M, E, F>(
        &self,
        conn: &mut C,
        wanted: &Wanted,
        messages: &[(K, M)],
        handler: &mut F,
    ) -> Result<Vec<Claim>, E>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        F: for<'r> FnMut(&'r mut C, &'r [&'r M]) -> Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'r>> + Send,
        K: Sync,
        M: Sync,
        E: From<InboxError> + From<Error> + Send,
    {
        begin_checked_async(conn).await?;
        let handled = match self.claim_all_async(conn, wanted).await {
            Ok(claims) => {
                let new = new_of(messages, &claims);
                if new.is_empty() { Ok(claims) } else { handler(conn, &new).await.map(|()| claims) }
            }
            Err(error) => Err(error.into()),
        };
        match handled {
            Ok(claims) => {
                commit_checked_async(conn).await.map_err(|error| self.not_committed(error))?;
                Ok(claims)
            }
            Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
        }
    }

    async fn handle_one_async<C, M, E, F>(
        &self,
        conn: &mut C,
        key: InboxKey,
        message: &M,
        handler: &mut F,
    ) -> Result<Once<()>, E>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        F: for<'r> FnMut(&'r mut C, &'r [&'r M]) -> Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'r>> + Send,
        M: Sync,
        E: From<InboxError> + From<Error> + Send,
    {
        let mut attempt = 1;
        loop {
            begin_checked_async(conn).await?;
            let claimed = self.claim_async(conn, key).await;
            let is_conflict = claimed.as_ref().is_err_and(InboxError::is_retriable);
            let handled = match claimed {
                Ok(Claim::New) => handler(conn, &[message]).await.map(|()| Once::Done(())),
                Ok(Claim::Duplicate) => Ok(Once::Duplicate),
                Err(error) => Err(error.into()),
            };
            match handled {
                Ok(once) => {
                    commit_checked_async(conn).await.map_err(|error| self.not_committed(error))?;
                    return Ok(once);
                }
                Err(error) => {
                    let rolled_back = C::TransactionManager::rollback_transaction(conn).await;
                    if !is_conflict || rolled_back.is_err() || attempt == CLAIM_ATTEMPTS_MAX {
                        return Err(error_after_rollback(error, rolled_back));
                    }
                }
            }
            attempt += 1;
        }
    }
}
