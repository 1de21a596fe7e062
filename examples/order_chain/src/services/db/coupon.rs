//! The coupon service: an order takes its coupon, and uses it up or returns it.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_outbox::consumer::{HandlerError, Record};

use super::super::Db;
use super::entries;
use super::tables::{COUPONS, ENTRIES, coupons};
use crate::domain::OrderEvent;
use crate::services::ledger::CouponReading;
use crate::services::phase::Phase;

/// Another order has the coupon.
#[derive(Debug, thiserror::Error)]
#[error("coupon {coupon_id} is not free for order {order_id}: another order has it, whose end is not here yet")]
struct NotFree {
    coupon_id: i64,
    order_id: String,
}

/// Nobody issued the coupon, or the order does not have it.
#[derive(Debug, thiserror::Error)]
#[error("order {order_id} has no coupon {coupon_id}")]
struct NoCoupon {
    coupon_id: i64,
    order_id: String,
}

pub(in crate::services) fn migrate(conn: &mut Db, count: i64) -> QueryResult<()> {
    conn.batch_execute(&format!("{ENTRIES}{COUPONS}"))?;
    let ids: Vec<_> = (1..=count).map(|id| coupons::id.eq(id)).collect();
    for ids in ids.chunks(500) {
        diesel::insert_or_ignore_into(coupons::table).values(ids.to_vec()).execute(conn)?;
    }
    Ok(())
}

pub(in crate::services) fn handle(conn: &mut Db, record: &Record) -> Result<(), HandlerError> {
    let event: OrderEvent = record.decode()?;
    apply(conn, &event)
}

pub(in crate::services) fn apply(conn: &mut Db, event: &OrderEvent) -> Result<(), HandlerError> {
    let order = event.order();
    let Some(coupon_id) = order.coupon_id else { return Ok(()) };
    match entries::advance(conn, event, coupon_id, 1)? {
        Phase::Created => take(conn, coupon_id, &order.id),
        // It stays with the order for ever.
        Phase::Paid => Ok(()),
        Phase::Cancelled => free(conn, coupon_id, &order.id),
    }
}

/// The shop gives a coupon to one live order at a time. The end of the order before may still be on its way here, so that this one waits.
fn take(conn: &mut Db, coupon_id: i64, order_id: &str) -> Result<(), HandlerError> {
    let is_free = coupons::table.find(coupon_id).filter(coupons::order_id.is_null());
    if diesel::update(is_free).set(coupons::order_id.eq(order_id)).execute(conn)? == 1 {
        return Ok(());
    }
    let order_id = order_id.to_owned();
    let known: Option<i64> = coupons::table.find(coupon_id).select(coupons::id).first(conn).optional()?;
    match known {
        Some(_) => Err(HandlerError::retriable(NotFree { coupon_id, order_id })),
        None => Err(HandlerError::permanent(NoCoupon { coupon_id, order_id })),
    }
}

fn free(conn: &mut Db, coupon_id: i64, order_id: &str) -> Result<(), HandlerError> {
    let of_order = coupons::table.find(coupon_id).filter(coupons::order_id.eq(order_id));
    match diesel::update(of_order).set(coupons::order_id.eq(None::<String>)).execute(conn)? {
        1 => Ok(()),
        _ => Err(HandlerError::permanent(NoCoupon { coupon_id, order_id: order_id.to_owned() })),
    }
}

pub(in crate::services) fn read(conn: &mut Db) -> QueryResult<CouponReading> {
    conn.transaction(|conn| {
        let taken = coupons::table.filter(coupons::order_id.is_not_null()).order(coupons::id);
        let taken = taken.select((coupons::id, coupons::order_id.assume_not_null())).load(conn)?;
        Ok(CouponReading { taken, entries: entries::all(conn)? })
    })
}
