//! What happens to an order: it is paid, or it is closed. The first UPDATE wins, and the other one finds no row.

use diesel::prelude::*;
use diesel_async::{AsyncConnection, RunQueryDsl};
use diesel_outbox::Outbox;

use super::super::Db;
use super::place::find;
use super::tables::{now_ms, orders};
use crate::domain::{OrderEvent, OrderState};
use crate::shop::orders::Payment;
use crate::steps::{Step, Steps};

/// Moves a created order on, and returns whether it was one.
async fn change(conn: &mut Db, order_id: &str, to: OrderState) -> QueryResult<bool> {
    let created = orders::table.find(order_id).filter(orders::state.eq(OrderState::Created.text()));
    let changes = (orders::state.eq(to.text()), orders::changed_at_ms.eq(now_ms()));
    Ok(diesel::update(created).set(changes).execute(conn).await? == 1)
}

pub(super) async fn pay(
    conn: &mut Db,
    (outbox, steps): (Option<&Outbox>, &Steps),
    order_id: &str,
) -> QueryResult<Payment> {
    conn.transaction(async |conn| {
        let is_now = change(conn, order_id, OrderState::Paid).await?;
        let Some(row) = find(conn, order_id).await? else { return Ok(Payment::NoOrder) };
        if let (true, Some(outbox)) = (is_now, outbox) {
            outbox.enqueue_async(conn, &OrderEvent::Paid(row.order.clone())).await?;
        }
        steps.reach(Step::PaymentWritten).await;
        Ok(if row.state == OrderState::Paid { Payment::Paid(row) } else { Payment::Closed })
    })
    .await
}

/// Closes an order that is not paid, in the transaction of a consumer. Returns whether it did.
pub(super) async fn close(
    conn: &mut Db,
    (outbox, steps): (Option<&Outbox>, &Steps),
    order_id: &str,
) -> QueryResult<bool> {
    if !change(conn, order_id, OrderState::Cancelled).await? {
        return Ok(false);
    }
    let Some(row) = find(conn, order_id).await? else { return Err(diesel::result::Error::NotFound) };
    if let Some(outbox) = outbox {
        outbox.enqueue_async(conn, &OrderEvent::Cancelled(row.order)).await?;
    }
    steps.reach(Step::CloseWritten).await;
    Ok(true)
}
