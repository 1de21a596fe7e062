//! The shop's database on PostgreSQL.

use diesel::prelude::*;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, deadpool::Pool};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::store::{OutboxStore, PostgresStore};

use self::db::tables::products;
use crate::Failure;

// The same text for both databases: a team would have one of them.
#[path = "db/mod.rs"]
pub mod db;

/// The connection of the shop.
pub type Db = AsyncPgConnection;

/// The database's clock.
const NOW_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// A process that is stopped in its transaction must not hold its locks for ever.
const SET_UP: &str = "SET idle_in_transaction_session_timeout = '10s'";

/// A pool of connections.
///
/// # Errors
/// Returns an error if the pool cannot be built.
pub fn pool(url: &str, connections: usize) -> Result<Pool<Db>, Failure> {
    let mut config = ManagerConfig::<Db>::default();
    config.custom_setup = Box::new(|url| {
        Box::pin(async move {
            let mut conn = Db::establish(url).await?;
            let set_up = conn.batch_execute(SET_UP).await;
            set_up.map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(conn)
        })
    });
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    Ok(Pool::builder(manager).max_size(connections).build()?)
}

/// The outbox's store, for a relay.
///
/// # Errors
/// Returns an error if its pool cannot be built.
pub fn store(url: &str) -> Result<impl OutboxStore + use<>, Failure> {
    Ok(PostgresStore::connect(url)?)
}

/// The product's generation, which then stays as it is until this transaction has ended.
async fn hold_generation(conn: &mut Db, product_id: i64) -> QueryResult<i64> {
    products::table.find(product_id).select(products::generation).for_share().first(conn).await
}

/// Lets the statements of the transaction that follow see one moment.
async fn see_one_moment(conn: &mut Db) -> QueryResult<()> {
    conn.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await
}
