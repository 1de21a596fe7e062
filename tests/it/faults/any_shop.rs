//! A shop on any of the databases, whose orders are placed one after the other.

use std::ops::Range;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::mysql::MysqlConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::SqliteConnection;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::relay::RelayBuilder;
use diesel_outbox::store::{MysqlStore, PostgresStore, SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::Transport;
use diesel_outbox::{Message, Outbox};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::audit::{Audit, audit, compare};
use super::shop::{DEADLINE, Shop, limits, order};
use crate::outbox::databases::{SqliteFile, fresh_mariadb, pool};

const LANES_SCHEMA: &str = include_str!("../../../migrations/outbox/postgres/0000outbox02_lanes/up.sql");
const ORDERS: &str = "CREATE TABLE orders (message_id char(36) NOT NULL PRIMARY KEY, number integer NOT NULL)";

/// On which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Database {
    Postgres,
    Mariadb,
    Sqlite,
}

impl Database {
    /// Gives a relay its store.
    pub(super) fn store(self, relay: RelayBuilder, shop: &Shop) -> RelayBuilder {
        match self {
            Self::Postgres => relay.store(PostgresStore::new(shop.pool())),
            Self::Mariadb => relay.store(MysqlStore::new(pool::<MysqlConnection>(&shop.database_url))),
            Self::Sqlite => relay.store(SqliteStore::new(pool::<SqliteConnection>(&shop.database_url))),
        }
    }
}

pub(super) struct AnyShop {
    pub(super) on: Database,
    pub(super) at: Shop,
    _file: Option<SqliteFile>,
}

impl AnyShop {
    /// A new one on the shared servers; `None` where one of them cannot be had.
    pub(super) async fn open(on: Database) -> Option<Self> {
        match on {
            Database::Postgres => Some(Self::on_postgres(Shop::open().await?).await),
            Database::Mariadb => {
                Some(Self::on_mariadb(fresh_mariadb()?, test_servers::shared_or_skip(ServerKind::Kafka)?))
            }
            Database::Sqlite => {
                Some(Self::on_sqlite(SqliteFile::fresh(), test_servers::shared_or_skip(ServerKind::Kafka)?))
            }
        }
    }

    /// One that is there.
    pub(super) fn existing(on: Database, at: Shop) -> Self {
        Self { on, at, _file: None }
    }

    pub(super) fn relay(&self, outbox: &Outbox, transport: impl Transport) -> RelayBuilder {
        self.on.store(outbox.relay().transport(transport).limits(limits()), &self.at)
    }

    pub(super) async fn place_all(&self, outbox: &Outbox, numbers: Range<i32>) {
        let mut connection = self.connect().await;
        for number in numbers {
            connection.place(outbox, &self.at.topic, number).await;
        }
    }

    pub(super) async fn on_postgres(shop: Shop) -> Self {
        shop.connect().await.batch_execute(LANES_SCHEMA).await.unwrap();
        Self { on: Database::Postgres, at: shop, _file: None }
    }

    /// In a database that has the outbox's tables.
    pub(super) fn on_mariadb(database_url: String, bootstrap: String) -> Self {
        MysqlConnection::establish(&database_url).unwrap().batch_execute(ORDERS).unwrap();
        Self { on: Database::Mariadb, at: Shop { database_url, bootstrap, topic: topic() }, _file: None }
    }

    fn on_sqlite(file: SqliteFile, bootstrap: String) -> Self {
        file.connect().batch_execute(ORDERS).unwrap();
        Self {
            on: Database::Sqlite,
            at: Shop { database_url: file.url(), bootstrap, topic: topic() },
            _file: Some(file),
        }
    }

    pub(super) async fn connect(&self) -> AnyConnection {
        let url = &self.at.database_url;
        match self.on {
            Database::Postgres => AnyConnection::Postgres(Box::new(self.at.connect().await)),
            Database::Mariadb => AnyConnection::Sync(Box::new(MysqlConnection::establish(url).unwrap())),
            Database::Sqlite => AnyConnection::Sync(Box::new(sqlite(url))),
        }
    }

    /// Waits until no live row is left.
    pub(super) async fn wait_until_drained(&self) {
        let AnyConnection::Sync(mut connection) = self.connect().await else {
            return self.at.wait_until_drained().await;
        };
        let end = Instant::now() + DEADLINE;
        loop {
            let live = connection.live();
            if live == 0 {
                return;
            }
            assert!(Instant::now() < end, "{live} rows are left after {DEADLINE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Does something while nobody else writes to the SQLite file.
    pub(super) fn while_unwritten(&self, act: impl FnOnce()) {
        let mut connection = sqlite(&self.at.database_url);
        connection.batch_execute("BEGIN IMMEDIATE").unwrap();
        act();
        connection.batch_execute("ROLLBACK").unwrap();
    }

    pub(super) async fn committed(&self) -> Vec<Uuid> {
        let AnyConnection::Sync(mut connection) = self.connect().await else { return self.at.committed().await };
        connection.ids("SELECT message_id AS id FROM orders")
    }

    pub(super) async fn audit(&self) -> Audit {
        let AnyConnection::Sync(mut connection) = self.connect().await else { return audit(&self.at).await };
        let dead = connection.ids("SELECT lower(hex(message_id)) AS id FROM outbox_dead_letters");
        compare(&self.at, self.committed().await, dead).await
    }
}

fn topic() -> String {
    format!("shop_{}", Uuid::now_v7().simple())
}

fn sqlite(file: &str) -> SqliteConnection {
    let mut connection = SqliteConnection::establish(file).unwrap();
    connection.batch_execute(SQLITE_PRAGMAS).unwrap();
    connection
}

/// Where orders are placed.
pub(super) enum AnyConnection {
    Postgres(Box<AsyncPgConnection>),
    Sync(Box<dyn SyncConnection>),
}

impl AnyConnection {
    pub(super) async fn place(&mut self, outbox: &Outbox, topic: &str, number: i32) {
        match self {
            Self::Postgres(connection) => Shop::place(connection, outbox, topic, number).await.unwrap(),
            Self::Sync(connection) => {
                connection.place(outbox, &order(topic, number), number).unwrap();
                // It blocked: whatever goes on beside it has its turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// A connection of Diesel's own.
pub(super) trait SyncConnection {
    /// Places an order; every seventh is rolled back.
    fn place(&mut self, outbox: &Outbox, message: &Message, number: i32) -> QueryResult<()>;

    /// What a query has in its column `id`.
    fn ids(&mut self, sql: &str) -> Vec<Uuid>;

    /// How many live rows there are.
    fn live(&mut self) -> i64;
}

#[derive(QueryableByName)]
struct Id {
    #[diesel(sql_type = Text)]
    id: String,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

macro_rules! impl_sync_connection {
    ($($connection:ty),+) => {$(
        impl SyncConnection for $connection {
            fn place(&mut self, outbox: &Outbox, message: &Message, number: i32) -> QueryResult<()> {
                let placed = self.transaction(|connection| {
                    let id = outbox.enqueue(connection, message)?;
                    connection.batch_execute(&format!("INSERT INTO orders VALUES ('{id}', {number})"))?;
                    if number % 7 == 3 { Err(Error::RollbackTransaction) } else { Ok(()) }
                });
                match placed {
                    Err(Error::RollbackTransaction) => Ok(()),
                    other => other,
                }
            }

            fn ids(&mut self, sql: &str) -> Vec<Uuid> {
                let rows: Vec<Id> = diesel::sql_query(sql).load(self).unwrap();
                rows.into_iter().map(|row| row.id.parse().unwrap()).collect()
            }

            fn live(&mut self) -> i64 {
                let count = diesel::sql_query("SELECT count(*) AS number FROM outbox_messages");
                count.get_result::<Count>(self).unwrap().number
            }
        }
    )+};
}

impl_sync_connection!(MysqlConnection, SqliteConnection);
