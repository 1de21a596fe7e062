//! The services on MariaDB, each in its own database.

use diesel::connection::SimpleConnection;
use diesel::mysql::MysqlConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};

use super::ledger::Service;
use crate::Failure;

// The same text for both databases: a team would have one of them.
#[path = "db/mod.rs"]
pub mod db;

/// The connection of a service.
pub type Db = MysqlConnection;

/// A pool for a service. `url` is that of the server, with any database.
fn pool(url: &str, service: Service, connections: u32) -> Result<Pool<ConnectionManager<Db>>, Failure> {
    let manager = ConnectionManager::new(database_url(url, service)?);
    Ok(Pool::builder().max_size(connections).min_idle(Some(0)).build(manager)?)
}

/// Creates a service's database, if it is missing.
fn create(url: &str, service: Service) -> Result<(), Failure> {
    let mut server = Db::establish(url)?;
    server.batch_execute(&format!("CREATE DATABASE IF NOT EXISTS chain_{}", service.name()))?;
    Ok(())
}

fn database_url(url: &str, service: Service) -> Result<String, Failure> {
    let (server, _database) = url.rsplit_once('/').ok_or("the URL of MariaDB names no database")?;
    Ok(format!("{server}/chain_{}", service.name()))
}
