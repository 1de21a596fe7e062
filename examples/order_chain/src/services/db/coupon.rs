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

/// Nobody issued the coupon, or no order has it.
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
    let changed = match entries::advance(conn, event, coupon_id, 1)? {
        Phase::Created => take(conn, coupon_id)?,
        // It stays with the order for ever.
        Phase::Paid => return Ok(()),
        Phase::Cancelled => free(conn, coupon_id)?,
    };
    if changed == 0 {
        return Err(HandlerError::permanent(NoCoupon { coupon_id, order_id: order.id.clone() }));
    }
    Ok(())
}

/// By two orders for a while, if need be: the shop has given the coupon of a closed order to the next one, whose message came first. The
/// shop lets no two live orders have it, and the reconciler says so if they do.
///
/// **Rejected:** to have the order's id in the coupon's row, and to wait while that of another order is there. If the next one was paid, the
/// closed one would wait for ever: its own end is behind it. Also rejected: to pass the coupon on when that end comes. Whoever is next may
/// not be committed yet, and a count needs nobody to look.
fn take(conn: &mut Db, coupon_id: i64) -> QueryResult<usize> {
    let more = coupons::orders.eq(coupons::orders + 1_i64);
    diesel::update(coupons::table.find(coupon_id)).set(more).execute(conn)
}

fn free(conn: &mut Db, coupon_id: i64) -> QueryResult<usize> {
    let taken = coupons::table.find(coupon_id).filter(coupons::orders.ge(1_i64));
    diesel::update(taken).set(coupons::orders.eq(coupons::orders - 1_i64)).execute(conn)
}

pub(in crate::services) fn read(conn: &mut Db) -> QueryResult<CouponReading> {
    conn.transaction(|conn| {
        let taken = coupons::table.filter(coupons::orders.gt(0_i64)).order(coupons::id).load(conn)?;
        Ok(CouponReading { taken, entries: entries::all(conn)? })
    })
}
