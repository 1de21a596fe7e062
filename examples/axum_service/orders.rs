//! Orders and their events.

use diesel::prelude::*;
use diesel::result::DatabaseErrorKind;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::{MessageId, Outbox, OutboxMessage};
use serde::{Deserialize, Serialize};

/// `AsyncPgConnection` or `AsyncMysqlConnection` where the service has a server.
pub(crate) type Db = SyncConnectionWrapper<SqliteConnection>;

pub(crate) const TOPIC: &str = "orders";

diesel::table! {
    orders (id) {
        id -> BigInt,
        total_cents -> BigInt,
    }
}

/// The event: JSON, its key the order.
#[derive(Debug, PartialEq, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = TOPIC, kind = "order.placed", key = order_id)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: i64,
    pub(crate) total_cents: i64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("order {0} was placed before")]
    PlacedBefore(i64),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

/// The service's own tables. The outbox makes its own.
pub(crate) async fn make_tables(conn: &mut Db) -> QueryResult<()> {
    conn.batch_execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total_cents INTEGER NOT NULL)").await
}

/// The order and its event: both or neither.
pub(crate) async fn place(conn: &mut Db, outbox: &Outbox, placed: &OrderPlaced) -> Result<MessageId, PlaceError> {
    conn.transaction(async |conn| {
        let order = (orders::id.eq(placed.order_id), orders::total_cents.eq(placed.total_cents));
        match diesel::insert_into(orders::table).values(order).execute(conn).await {
            Err(diesel::result::Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {
                return Err(PlaceError::PlacedBefore(placed.order_id));
            }
            written => written?,
        };
        Ok(outbox.enqueue_async(conn, placed).await?)
    })
    .await
}
