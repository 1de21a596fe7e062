//! What the reconciler asks and writes.

use std::time::Duration;

use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable};
use diesel_async::{AsyncConnection, RunQueryDsl};
use diesel_outbox::consumer::ParkedRecords;

use super::super::{Db, see_one_moment};
use super::place::{insert, of_reservation};
use super::tables::{Row, now_ms, order_row, orders, products};
use crate::cache::Reservation;
use crate::domain::{Order, OrderRow, OrderState};
use crate::shop::orders::{LiveStock, Product, Verdict};

/// Whether an order stands on a reservation, decided for good.
pub(super) async fn decide(conn: &mut Db, reservation: &Reservation) -> QueryResult<Verdict> {
    if let Some(row) = of_reservation(conn, &reservation.id).await? {
        return Ok(verdict(&row));
    }
    // Its id is the reservation's: a later request of the same client may still become an order.
    let refusal = Order {
        id: reservation.id.clone(),
        reservation_id: reservation.id.clone(),
        customer_id: 0,
        product_id: reservation.product_id,
        quantity: reservation.quantity,
        coupon_id: None,
        total_cents: 0,
    };
    // An open transaction with the order's row is waited for here.
    if insert(conn, &refusal, OrderState::Refused, Duration::ZERO).await? == 1 {
        return Ok(Verdict::Refused);
    }
    let row = of_reservation(conn, &reservation.id).await?.ok_or(diesel::result::Error::NotFound)?;
    Ok(verdict(&row))
}

fn verdict(row: &OrderRow) -> Verdict {
    match row.state {
        OrderState::Refused => Verdict::Refused,
        state => Verdict::Order(state),
    }
}

/// SQLite allows 32,766 values in a statement, PostgreSQL twice as many.
const IDS_MAX: usize = 1_000;

pub(super) async fn states(conn: &mut Db, reservation_ids: &[String]) -> QueryResult<Vec<(String, OrderState)>> {
    let mut found = Vec::new();
    for ids in reservation_ids.chunks(IDS_MAX) {
        let rows = orders::table.filter(orders::reservation_id.eq_any(ids)).load::<Row>(conn).await?;
        for row in rows {
            let row = order_row(row)?;
            found.push((row.order.reservation_id, row.state));
        }
    }
    Ok(found)
}

pub(super) async fn database_now_ms(conn: &mut Db) -> QueryResult<i64> {
    diesel::select(now_ms()).get_result(conn).await
}

pub(super) async fn created_at_ms(conn: &mut Db, order_ids: &[String]) -> QueryResult<Vec<(String, i64)>> {
    let mut found = Vec::new();
    for ids in order_ids.chunks(IDS_MAX) {
        let created = orders::table.filter(orders::id.eq_any(ids)).select((orders::id, orders::created_at_ms));
        found.extend(created.load::<(String, i64)>(conn).await?);
    }
    Ok(found)
}

pub(super) async fn overdue(conn: &mut Db) -> QueryResult<Vec<(String, i64)>> {
    let created = orders::table.filter(orders::state.eq(OrderState::Created.text()));
    let overdue = created.filter((orders::created_at_ms + orders::payment_term_ms).le(now_ms()));
    overdue.select((orders::id, orders::created_at_ms + orders::payment_term_ms)).load(conn).await
}

/// Records that a group has set aside: at most so many are told.
const PARKED_MAX: usize = 100;

pub(super) async fn parked(conn: &mut Db, group: &str) -> QueryResult<Vec<String>> {
    let rows = ParkedRecords::new(group).list_async(conn, 0, PARKED_MAX).await?;
    Ok(rows.into_iter().map(|row| format!("{group}: {}", row.error)).collect())
}

pub(super) async fn product_list(conn: &mut Db) -> QueryResult<Vec<Product>> {
    let rows = products::table.order(products::id).load::<(i64, i64, i64)>(conn).await?;
    Ok(rows.into_iter().map(|(id, price_cents, generation)| Product { id, price_cents, generation }).collect())
}

/// Waits for the orders that hold the present generation.
pub(super) async fn raise_generation(conn: &mut Db, product_id: i64) -> QueryResult<i64> {
    conn.transaction(async |conn| {
        let raised = products::generation.eq(products::generation + 1_i64);
        diesel::update(products::table.find(product_id)).set(raised).execute(conn).await?;
        products::table.find(product_id).select(products::generation).first(conn).await
    })
    .await
}

pub(super) async fn live_stock(conn: &mut Db, product_id: i64) -> QueryResult<LiveStock> {
    conn.transaction(async |conn| {
        // Otherwise an order that is paid between the two reads would count twice.
        see_one_moment(conn).await?;
        let of_product = || orders::table.filter(orders::product_id.eq(product_id));
        let created = of_product().filter(orders::state.eq(OrderState::Created.text())).load::<Row>(conn).await?;
        let reserved = created.into_iter().map(|row| order_row(row).map(|row| reservation_of(&row.order)));
        let paid = of_product().filter(orders::state.eq(OrderState::Paid.text()));
        // Of no rows the sum is NULL; PostgreSQL makes it a `numeric`.
        let sum = sql::<Nullable<BigInt>>("CAST(sum(quantity) AS bigint)");
        let sold: Option<i64> = paid.select(sum).first(conn).await?;
        Ok(LiveStock { reserved: reserved.collect::<QueryResult<_>>()?, sold: sold.unwrap_or(0) })
    })
    .await
}

fn reservation_of(order: &Order) -> Reservation {
    Reservation {
        id: order.reservation_id.clone(),
        order_id: order.id.clone(),
        product_id: order.product_id,
        quantity: order.quantity,
    }
}

pub(super) async fn all(conn: &mut Db) -> QueryResult<Vec<OrderRow>> {
    let is_order = orders::state.ne(OrderState::Refused.text());
    let rows = orders::table.filter(is_order).order(orders::id).load::<Row>(conn).await?;
    rows.into_iter().map(order_row).collect()
}
