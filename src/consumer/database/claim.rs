//! The inbox's part of a transaction: the one file that knows the inbox.

#[cfg(feature = "async")]
use std::future::Future;

use diesel::QueryResult;

use crate::message::MessageId;
use crate::store::sql::columns::Columns;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::text::statements;

statements! {
    /// The claim.
    ClaimSql
    claim {
        postgres: "INSERT INTO outbox_claims (consumer, message_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        mysql: "INSERT IGNORE INTO outbox_claims (consumer, message_id) VALUES (?1, ?2)";
        sqlite: "INSERT INTO outbox_claims (consumer, message_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    }
}

/// What the inbox says of a message.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nobody has processed it.
    New,
    /// It was processed.
    Duplicate,
    /// It is older than what is kept.
    TooOld,
}

/// A consumer's inbox.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ConsumerInbox {
    consumer: std::sync::Arc<str>,
}

impl ConsumerInbox {
    pub(super) fn new(options: &crate::consumer::options::Options) -> Self {
        Self { consumer: std::sync::Arc::clone(&options.consumer) }
    }

    fn statement<DB: Dialect>(&self, id: MessageId) -> Statement<DB> {
        let names = crate::naming::TableNames::default();
        let renderer =
            crate::store::sql::text::SqlRenderer { syntax: DB::SYNTAX, names: &names, fragments: Vec::new() };
        Statement::new(&ClaimSql::new(&renderer).claim, [Bind::text(&self.consumer), Bind::Text(id.to_string().into())])
    }
}

fn claim_of(rows: usize) -> Claim {
    if rows == 0 { Claim::Duplicate } else { Claim::New }
}

/// A database in which a consumer can process records through a Diesel connection `C`.
///
/// Implemented for Diesel's backends. There is nothing to implement or call here.
#[diagnostic::on_unimplemented(
    message = "a consumer cannot process records in `{Self}` through `{C}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox",
    note = "pools of diesel-async take `handle_async`"
)]
pub trait ConsumerBackend<C>: Dialect + Columns {
    #[doc(hidden)]
    fn claim(conn: &mut C, inbox: &ConsumerInbox, id: MessageId) -> QueryResult<Claim>;
}

/// A database in which a consumer can process records through a diesel-async connection `C`.
///
/// Implemented for Diesel's backends. There is nothing to implement or call here.
#[cfg(feature = "async")]
#[diagnostic::on_unimplemented(
    message = "a consumer cannot process records in `{Self}` through `{C}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox",
    note = "pools of Diesel itself take `handle`"
)]
pub trait AsyncConsumerBackend<C>: Dialect + Columns {
    #[doc(hidden)]
    fn claim_async<'a>(
        conn: &'a mut C,
        inbox: &'a ConsumerInbox,
        id: MessageId,
    ) -> impl Future<Output = QueryResult<Claim>> + 'a;
}

macro_rules! consumer_backend {
    ($backend:ty) => {
        impl<C> ConsumerBackend<C> for $backend
        where
            C: diesel::connection::LoadConnection<Backend = Self>,
        {
            fn claim(conn: &mut C, inbox: &ConsumerInbox, id: MessageId) -> QueryResult<Claim> {
                diesel::RunQueryDsl::execute(inbox.statement::<Self>(id), conn).map(claim_of)
            }
        }

        #[cfg(feature = "async")]
        impl<C> AsyncConsumerBackend<C> for $backend
        where
            C: diesel_async::AsyncConnectionCore<Backend = Self>,
        {
            async fn claim_async<'a>(conn: &'a mut C, inbox: &'a ConsumerInbox, id: MessageId) -> QueryResult<Claim> {
                diesel_async::RunQueryDsl::execute(inbox.statement::<Self>(id), conn).await.map(claim_of)
            }
        }
    };
}

#[cfg(feature = "postgres")]
consumer_backend!(diesel::pg::Pg);
#[cfg(feature = "mysql")]
consumer_backend!(diesel::mysql::Mysql);
#[cfg(feature = "sqlite")]
consumer_backend!(diesel::sqlite::Sqlite);
