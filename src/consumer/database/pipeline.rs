//! Sends BEGIN, the offset's UPDATE and the claim together: one round trip in place of two or three.

use std::any::Any;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use futures_util::future::join3;

use super::claim::{Claimed, claimed};
use crate::hook::{AsyncConn, Depth};
use crate::inbox::{Inbox, InboxKey};
use crate::outbox::transaction::BeginTogether;
use crate::store::sql::dialect::Statement;

/// A connection of PostgreSQL that is in no transaction.
pub(super) struct Pipeline<'a> {
    conn: &'a mut AsyncPgConnection,
    inbox: Option<&'a Inbox>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn of<C: 'static>(conn: &'a mut C, inbox: Option<&'a Inbox>) -> Option<Self> {
        let conn = (conn as &mut dyn Any).downcast_mut::<AsyncPgConnection>()?;
        let is_free = Depth::of(&mut AsyncConn(conn)).is_ok_and(|at| at.depth == 0);
        is_free.then_some(Self { conn, inbox })
    }

    /// Begins a transaction, moves the offset and claims the message, where there is one. `None` if somebody else has moved the offset.
    /// With an error, too, the transaction may be open.
    ///
    /// `move_offset` must fail unless the transaction is flagged.
    pub(super) async fn begin(
        self,
        move_offset: Option<Statement<Pg>>,
        key: Option<InboxKey>,
    ) -> QueryResult<Option<Claimed>> {
        let Self { conn, inbox } = self;
        let begin = BeginTogether::new(conn)?;
        let (begun, moved, answer) = {
            let shared = &*conn;
            let moved = async {
                let Some(statement) = move_offset else { return Ok(1) };
                let mut conn = shared;
                statement.execute(&mut conn).await
            };
            let answer = async {
                let (Some(inbox), Some(key)) = (inbox, key) else { return None };
                Some((inbox, key, inbox.claim_flagged(shared, key, begin.depth()).await))
            };
            join3(begin.send(shared), moved, answer).await
        };
        begin.end(conn, begun)??;
        if moved? == 0 {
            return Ok(None);
        }
        match answer {
            Some((inbox, key, answer)) => claimed(inbox.claim_of(key, answer)).map(Some),
            None => Ok(Some(Claimed::New)),
        }
    }
}
