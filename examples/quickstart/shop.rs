//! The order shop: what an application writes to use the outbox.

use std::path::Path;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::relay::RelayBuilder;
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{KafkaConfig, KafkaTransport};
use diesel_outbox::{Outbox, OutboxMessage, Topic};
use serde::Serialize;

use crate::Failure;

pub(crate) const TOPIC: &str = "orders";

diesel::table! {
    orders (id) {
        id -> BigInt,
        total_cents -> BigInt,
    }
}

/// The event: JSON on the topic `orders`, its key the order.
#[derive(Serialize, OutboxMessage)]
#[outbox(topic = TOPIC, kind = "order.placed", key = order_id)]
pub(crate) struct OrderPlaced {
    order_id: i64,
    total_cents: i64,
}

pub(crate) struct Shop {
    pub(crate) conn: SqliteConnection,
    pub(crate) outbox: Outbox,
}

impl Shop {
    /// Makes the database.
    pub(crate) fn create(file: &Path) -> Result<Self, Failure> {
        let mut shop = Self::open(file)?;
        shop.conn.batch_execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total_cents INTEGER NOT NULL)")?;
        shop.outbox.migrate(&mut shop.conn)?;
        Ok(shop)
    }

    pub(crate) fn open(file: &Path) -> Result<Self, Failure> {
        let mut conn = SqliteConnection::establish(&file.to_string_lossy())?;
        conn.batch_execute(SQLITE_PRAGMAS)?;
        let outbox = Outbox::builder().topic(Topic::new(TOPIC)).message::<OrderPlaced>().build()?;
        Ok(Self { conn, outbox })
    }

    /// What sends the messages, to be started.
    pub(crate) fn relay(&self, file: &Path, kafka: &str) -> Result<RelayBuilder, Failure> {
        let pool =
            Pool::builder().max_size(2).build(ConnectionManager::<SqliteConnection>::new(file.to_string_lossy()))?;
        let transport = KafkaTransport::new(KafkaConfig::new(kafka))?;
        Ok(self.outbox.relay().store(SqliteStore::new(pool)).transport(transport))
    }

    /// Places an order in a transaction of its own.
    pub(crate) fn place(&mut self, order_id: i64) -> QueryResult<()> {
        let Self { conn, outbox } = self;
        conn.immediate_transaction(|conn| write(conn, outbox, order_id))
    }

    /// Which orders there are.
    pub(crate) fn orders(&mut self) -> QueryResult<Vec<i64>> {
        orders::table.select(orders::id).order(orders::id).load(&mut self.conn)
    }

    /// The rows that wait to be sent.
    pub(crate) fn waiting(&mut self) -> QueryResult<Waiting> {
        let sql = "SELECT count(*) AS messages, coalesce(sum(attempts), 0) AS attempts FROM outbox_messages";
        diesel::sql_query(sql).get_result(&mut self.conn)
    }
}

/// An order and its message: both are there when the open transaction commits, or neither.
pub(crate) fn write(conn: &mut SqliteConnection, outbox: &Outbox, order_id: i64) -> QueryResult<()> {
    let total_cents = 1_999;
    let order = (orders::id.eq(order_id), orders::total_cents.eq(total_cents));
    diesel::insert_into(orders::table).values(order).execute(conn)?;
    outbox.enqueue(conn, &OrderPlaced { order_id, total_cents })?;
    Ok(())
}

#[derive(QueryableByName)]
pub(crate) struct Waiting {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    pub(crate) messages: i64,
    /// How many attempts they have spent.
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    pub(crate) attempts: i64,
}
