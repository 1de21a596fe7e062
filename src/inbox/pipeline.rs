//! Sends BEGIN and the claim together, which saves a round trip of four.

use std::any::type_name;

use diesel::connection::TransactionManagerStatus;
use diesel::pg::Pg;
use diesel::result::QueryResult;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, SimpleAsyncConnection, TransactionManager};
use futures_util::future::join;

use super::claims::ClaimedKeys;
use super::outcomes::Wanted;
use super::{Claim, Inbox, InboxError, InboxKey};
use crate::enqueue::AsyncOutboxBackend;
use crate::hook::{AsyncConn, Conn};
use crate::outbox::transaction::Begin;

impl Inbox {
    /// Begins a transaction and claims. The transaction is open afterwards, also if the claim failed, unless BEGIN did not come to be
    /// sent.
    ///
    /// BEGIN flags the transaction in the same text, and the claim fails without the flag. So it never commits by itself: not if BEGIN
    /// fails, and not if a new version of the driver sent the claim first.
    pub(super) async fn begin_with_claim(
        &self,
        conn: &mut AsyncPgConnection,
        key: InboxKey,
    ) -> QueryResult<Result<Claim, InboxError>> {
        let manager = type_name::<AnsiTransactionManager>();
        let Some(begin) = Begin::replacing::<AnsiTransactionManager, Pg>(&mut AsyncConn(conn), manager)? else {
            AnsiTransactionManager::begin_transaction(conn).await?;
            return Ok(self.claim_async(conn, key).await);
        };
        begin.announce(&mut AsyncConn(conn));
        // Until both have answered, the connection's state is unknown: a dropped future leaves it broken.
        let before = std::mem::replace(AsyncConn(conn).status(), TransactionManagerStatus::InError);
        let keys = [key];
        let claimed_keys = ClaimedKeys { flagged: Some(begin.depth.get()), ..self.claimed_keys(&keys) };
        let (begun, claimed) = {
            let shared = &*conn;
            let (mut first, mut second) = (shared, shared);
            join(first.batch_execute(&begin.sql), Pg::claim_keys_async(&mut second, claimed_keys)).await
        };
        *AsyncConn(conn).status() = before;
        if let Err(error) = begin.enter(&mut AsyncConn(conn), begun)? {
            return Ok(Err(error.into()));
        }
        let answer = claimed.map_err(|error| self.refused::<Pg>(error));
        let claims = answer.and_then(|answer| self.outcomes(&Wanted::new(keys), answer));
        Ok(claims.map(|claims| claims.into_iter().next().unwrap_or(Claim::Duplicate)))
    }
}
