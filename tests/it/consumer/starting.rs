//! What handlers do, and how a consumer of any broker is started on each database.

use diesel::connection::{LoadConnection, SimpleConnection, TransactionManager as _};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Error as PoolError, Pool, R2D2Connection};
use diesel::sqlite::SqliteConnection;
use diesel_outbox::OutboxBackend;
use diesel_outbox::consumer::{ConsumerBackend, HandlerError, KafkaConsumer, Record, RunningConsumer};
use diesel_outbox::store::SQLITE_PRAGMAS;

use super::bed::insert;

/// What a handler does.
pub(crate) enum Act {
    /// Writes its effect.
    Write,
    /// Writes its effect, and ends as this does.
    WriteThen(Box<dyn FnOnce() -> Result<(), HandlerError>>),
    /// Reads, and then writes its effect.
    ReadAndWrite,
    /// Fails at once.
    Fail(HandlerError),
    /// Writes its effect, runs this, and fails as it does.
    Run(&'static str),
    /// Writes its effect, runs this, and ignores its error.
    Ignore(&'static str),
    /// Writes its effect in a savepoint that it never ends.
    LeaveOpen,
    /// Writes its effect, and ends the consumer's transaction.
    Commit,
}

pub(super) fn handler<C: Connection>(
    act: impl Fn(&Record) -> Act + Send + Sync + 'static,
) -> impl Fn(&mut C, &Record) -> Result<(), HandlerError> + Send + Sync + 'static {
    move |conn, record| {
        let act = act(record);
        match act {
            Act::Fail(error) => return Err(error),
            Act::LeaveOpen => C::TransactionManager::begin_transaction(conn)?,
            Act::ReadAndWrite => conn.batch_execute("SELECT count(*) FROM effects")?,
            _ => {}
        }
        conn.batch_execute(&insert(record))?;
        match act {
            Act::WriteThen(end) => end()?,
            Act::Run(sql) => conn.batch_execute(sql)?,
            Act::Ignore(sql) => drop(conn.batch_execute(sql)),
            Act::Commit => C::TransactionManager::commit_transaction(conn)?,
            Act::Write | Act::ReadAndWrite | Act::Fail(_) | Act::LeaveOpen => {}
        }
        Ok(())
    }
}

/// A consumer of any broker.
pub(crate) trait AnyConsumer {
    fn start_with<C>(
        self,
        pool: Pool<ConnectionManager<C>>,
        handler: impl Fn(&mut C, &Record) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> RunningConsumer
    where
        C: R2D2Connection + LoadConnection + Send + 'static,
        C::Backend: ConsumerBackend + OutboxBackend<C>;
}

macro_rules! any_consumer {
    ($consumer:ty) => {
        impl AnyConsumer for $consumer {
            fn start_with<C>(
                self,
                pool: Pool<ConnectionManager<C>>,
                handler: impl Fn(&mut C, &Record) -> Result<(), HandlerError> + Send + Sync + 'static,
            ) -> RunningConsumer
            where
                C: R2D2Connection + LoadConnection + Send + 'static,
                C::Backend: ConsumerBackend + OutboxBackend<C>,
            {
                self.start(pool, handler).expect("the consumer starts")
            }
        }
    };
}

any_consumer!(KafkaConsumer);
#[cfg(feature = "_test")]
any_consumer!(diesel_outbox::consumer::RocketMqConsumer);

pub(super) fn pool<C: R2D2Connection + 'static>(url: &str) -> Pool<ConnectionManager<C>> {
    Pool::builder().max_size(10).min_idle(Some(0)).build(ConnectionManager::new(url)).expect("a pool")
}

#[derive(Debug)]
struct SetUp;

impl CustomizeConnection<SqliteConnection, PoolError> for SetUp {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), PoolError> {
        conn.batch_execute(SQLITE_PRAGMAS).map_err(PoolError::QueryError)
    }
}

pub(super) fn sqlite_pool(url: &str) -> Pool<ConnectionManager<SqliteConnection>> {
    let builder = Pool::builder().max_size(10).connection_customizer(Box::new(SetUp));
    builder.build(ConnectionManager::new(url)).expect("a pool")
}
