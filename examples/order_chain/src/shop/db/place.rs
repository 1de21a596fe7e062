//! The transactions of orders. Each begins with a write: SQLite lets a transaction that has read first not always write.

use std::time::Duration;

use diesel::prelude::*;
use diesel_async::{AsyncConnection, RunQueryDsl};
use diesel_outbox::{Outbox, OutboxMessage};

use super::super::{Db, hold_generation};
use super::tables::{Row, now_ms, order_row, orders};
use crate::domain::{Order, OrderEvent, OrderRow, OrderState, PaymentTermOver};
use crate::shop::orders::Placed;
use crate::steps::{Step, Steps};

/// Why a transaction ended without an order.
enum NotPlaced {
    /// A row is in the way.
    Conflict,
    StaleGeneration,
    Database(diesel::result::Error),
}

impl From<diesel::result::Error> for NotPlaced {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error)
    }
}

/// The order and its messages: both or neither.
pub(super) async fn place(
    conn: &mut Db,
    (outbox, steps): (Option<&Outbox>, &Steps),
    order: &Order,
    generation: i64,
    payment_term: Duration,
) -> QueryResult<Placed> {
    let placed = conn
        .transaction(async |conn| {
            if insert(conn, order, OrderState::Created, payment_term).await? == 0 {
                return Err(NotPlaced::Conflict);
            }
            // Until COMMIT: a rebuild of the cache waits for this order, or this order finds its generation.
            if hold_generation(conn, order.product_id).await? != generation {
                return Err(NotPlaced::StaleGeneration);
            }
            steps.reach(Step::OrderInserted).await;
            if let Some(outbox) = outbox {
                let created = OrderEvent::Created(order.clone());
                let term_over = PaymentTermOver { order_id: order.id.clone() }.delay(payment_term);
                outbox.batch().add(&created)?.add(&term_over)?.write_async(conn).await?;
            }
            steps.reach(Step::Enqueued).await;
            Ok(())
        })
        .await;
    match placed {
        Ok(()) => Ok(Placed::New),
        Err(NotPlaced::StaleGeneration) => Ok(Placed::StaleGeneration),
        Err(NotPlaced::Conflict) => conflict(conn, order).await,
        Err(NotPlaced::Database(error)) => Err(error),
    }
}

/// Returns 0 if a row with the same id, reservation or coupon is there.
pub(super) async fn insert(
    conn: &mut Db,
    order: &Order,
    state: OrderState,
    payment_term: Duration,
) -> QueryResult<usize> {
    // At most 49 days, which no sum overflows.
    let payment_term_ms = u32::try_from(payment_term.as_millis()).unwrap_or(u32::MAX);
    let row = (
        orders::id.eq(&order.id),
        orders::reservation_id.eq(&order.reservation_id),
        orders::state.eq(state.text()),
        orders::customer_id.eq(order.customer_id),
        orders::product_id.eq(order.product_id),
        orders::quantity.eq(order.quantity),
        orders::coupon_id.eq(order.coupon_id),
        orders::total_cents.eq(order.total_cents),
        orders::created_at_ms.eq(now_ms()),
        orders::payment_term_ms.eq(i64::from(payment_term_ms)),
        orders::changed_at_ms.eq(now_ms()),
    );
    diesel::insert_into(orders::table).values(row).on_conflict_do_nothing().execute(conn).await
}

/// Which row was in the way.
async fn conflict(conn: &mut Db, order: &Order) -> QueryResult<Placed> {
    if let Some(before) = find(conn, &order.id).await? {
        return Ok(Placed::Before(before));
    }
    match of_reservation(conn, &order.reservation_id).await? {
        Some(_) => Ok(Placed::Refused),
        None => Ok(Placed::CouponInUse),
    }
}

pub(super) async fn find(conn: &mut Db, order_id: &str) -> QueryResult<Option<OrderRow>> {
    let is_order = orders::state.ne(OrderState::Refused.text());
    let row = orders::table.filter(orders::id.eq(order_id)).filter(is_order).first::<Row>(conn).await.optional()?;
    row.map(order_row).transpose()
}

pub(super) async fn of_reservation(conn: &mut Db, reservation_id: &str) -> QueryResult<Option<OrderRow>> {
    let row = orders::table.filter(orders::reservation_id.eq(reservation_id)).first::<Row>(conn).await.optional()?;
    row.map(order_row).transpose()
}
