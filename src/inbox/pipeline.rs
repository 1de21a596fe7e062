//! Sends BEGIN and the claim together, which saves a round trip of four.

use diesel::pg::Pg;
use diesel::result::QueryResult;
use diesel_async::AsyncPgConnection;
use futures_util::future::join;

use super::claims::{ClaimAnswer, ClaimedKeys};
use super::outcomes::Wanted;
use super::{Claim, Inbox, InboxError, InboxKey};
use crate::enqueue::AsyncOutboxBackend;
use crate::outbox::transaction::BeginTogether;

impl Inbox {
    /// Begins a transaction and claims. The transaction is open afterwards, also if the claim failed, unless BEGIN did not come to be
    /// sent.
    pub(super) async fn begin_with_claim(
        &self,
        conn: &mut AsyncPgConnection,
        key: InboxKey,
    ) -> QueryResult<Result<Claim, InboxError>> {
        let begin = BeginTogether::new(conn)?;
        let (begun, claimed) = {
            let shared = &*conn;
            join(begin.send(shared), self.claim_flagged(shared, key, begin.depth())).await
        };
        if let Err(error) = begin.end(conn, begun)? {
            return Ok(Err(error.into()));
        }
        Ok(self.claim_of(key, claimed))
    }

    /// A claim that fails unless the transaction is flagged.
    pub(crate) async fn claim_flagged(
        &self,
        mut conn: &AsyncPgConnection,
        key: InboxKey,
        depth: u32,
    ) -> QueryResult<ClaimAnswer> {
        let keys = [key];
        Pg::claim_keys_async(&mut conn, ClaimedKeys { flagged: Some(depth), ..self.claimed_keys(&keys) }).await
    }

    /// What the answer to a claim means.
    pub(crate) fn claim_of(&self, key: InboxKey, answer: QueryResult<ClaimAnswer>) -> Result<Claim, InboxError> {
        let answer = answer.map_err(|error| self.refused::<Pg>(error))?;
        let claims = self.outcomes(&Wanted::new([key]), answer)?;
        Ok(claims.into_iter().next().unwrap_or(Claim::Duplicate))
    }
}
