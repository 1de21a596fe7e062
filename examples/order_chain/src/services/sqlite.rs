//! The services on SQLite, each in its own file.

use diesel::connection::SimpleConnection;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Error, Pool};
use diesel::sqlite::SqliteConnection;
use diesel_outbox::store::SQLITE_PRAGMAS;

use super::ledger::Service;
use crate::Failure;

// The same text for both databases: a team would have one of them.
#[path = "db/mod.rs"]
pub mod db;
#[cfg(test)]
mod tests;

/// The connection of a service.
pub type Db = SqliteConnection;

#[derive(Debug)]
struct SetUp;

impl CustomizeConnection<Db, Error> for SetUp {
    fn on_acquire(&self, conn: &mut Db) -> Result<(), Error> {
        conn.batch_execute(SQLITE_PRAGMAS).map_err(Error::QueryError)
    }
}

/// A pool for a service. `folder` is where the files are.
fn pool(folder: &str, service: Service, connections: u32) -> Result<Pool<ConnectionManager<Db>>, Failure> {
    let manager = ConnectionManager::new(format!("{folder}/{}.db", service.name()));
    let pool = Pool::builder().max_size(connections).min_idle(Some(0)).connection_customizer(Box::new(SetUp));
    Ok(pool.build(manager)?)
}

/// The file is created with its first connection.
fn create(_folder: &str, _service: Service) -> Result<(), Failure> {
    Ok(())
}
