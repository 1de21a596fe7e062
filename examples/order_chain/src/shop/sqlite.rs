//! The shop's database on SQLite.

use diesel::prelude::*;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, deadpool::Pool};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::store::{OutboxStore, SQLITE_PRAGMAS, SqliteStore};

use self::db::tables::products;
use crate::Failure;

// The same text for both databases: a team would have one of them.
#[path = "db/mod.rs"]
pub mod db;

/// The connection of the shop.
pub type Db = SyncConnectionWrapper<SqliteConnection>;

/// The database's clock.
const NOW_MS: &str = "CAST(unixepoch('subsec') * 1000 AS integer)";

/// A pool of connections.
///
/// # Errors
/// Returns an error if the pool cannot be built.
pub fn pool(file: &str, connections: usize) -> Result<Pool<Db>, Failure> {
    let mut config = ManagerConfig::<Db>::default();
    config.custom_setup = Box::new(|file| {
        Box::pin(async move {
            let mut conn = Db::establish(file).await?;
            let set_up = conn.batch_execute(SQLITE_PRAGMAS).await;
            set_up.map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(conn)
        })
    });
    let manager = AsyncDieselConnectionManager::new_with_config(file, config);
    Ok(Pool::builder(manager).max_size(connections).build()?)
}

/// The outbox's store, for a relay.
///
/// # Errors
/// Returns an error if its pool cannot be built.
pub fn store(file: &str) -> Result<impl OutboxStore + use<>, Failure> {
    Ok(SqliteStore::connect(file)?)
}

/// The product's generation. The transaction has written before, so nobody else writes until it has ended.
async fn hold_generation(conn: &mut Db, product_id: i64) -> QueryResult<i64> {
    products::table.find(product_id).select(products::generation).first(conn).await
}

/// Lets the statements of the transaction that follow see one moment: so it is anyhow.
async fn see_one_moment(_conn: &mut Db) -> QueryResult<()> {
    Ok(())
}
