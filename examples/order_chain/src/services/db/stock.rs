//! The stock service: locks units for an order, and sells or releases them.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_outbox::consumer::{HandlerError, Record};

use super::super::Db;
use super::entries;
use super::tables::{ENTRIES, PRODUCTS, products};
use crate::domain::OrderEvent;
use crate::services::ledger::{StockReading, StockRow};
use crate::services::phase::Phase;

/// The units of an order are not where its change takes them from.
#[derive(Debug, thiserror::Error)]
#[error("product {product_id} has not {quantity} units that could become {phase:?}")]
struct NotThere {
    product_id: i64,
    quantity: i64,
    phase: Phase,
}

pub(in crate::services) fn migrate(conn: &mut Db, units: &[i64]) -> QueryResult<()> {
    conn.batch_execute(&format!("{ENTRIES}{PRODUCTS}"))?;
    for (id, units) in (1_i64..).zip(units) {
        let counts = (products::locked.eq(0_i64), products::sold.eq(0_i64), products::version.eq(0_i64));
        let row = (products::id.eq(id), products::total.eq(units), products::available.eq(units), counts);
        diesel::insert_or_ignore_into(products::table).values(row).execute(conn)?;
    }
    Ok(())
}

pub(in crate::services) fn handle(conn: &mut Db, record: &Record) -> Result<(), HandlerError> {
    let event: OrderEvent = record.decode()?;
    apply(conn, &event)
}

pub(in crate::services) fn apply(conn: &mut Db, event: &OrderEvent) -> Result<(), HandlerError> {
    let (product_id, quantity) = (event.order().product_id, event.order().quantity);
    let phase = entries::advance(conn, event, product_id, quantity)?;
    let changed = match phase {
        Phase::Created => lock(conn, product_id, quantity)?,
        Phase::Paid => sell(conn, product_id, quantity)?,
        Phase::Cancelled => release(conn, product_id, quantity)?,
    };
    if changed == 0 {
        return Err(HandlerError::permanent(NotThere { product_id, quantity, phase }));
    }
    Ok(())
}

/// Below 0 for a while, if need be: the shop has sold units of a closed order, whose message comes later. Redis lets nobody oversell.
///
/// **Rejected:** to wait until the units are there. An order that was closed, and whose units were sold again, would wait for ever: its own
/// end is behind it.
fn lock(conn: &mut Db, product_id: i64, quantity: i64) -> QueryResult<usize> {
    let row = products::table.find(product_id);
    let changes = (
        products::available.eq(products::available - quantity),
        products::locked.eq(products::locked + quantity),
        products::version.eq(products::version + 1_i64),
    );
    diesel::update(row).set(changes).execute(conn)
}

/// The condition is a part of the UPDATE, which reads the newest row. **Rejected:** to read the version first and to compare it. On a hot
/// product nearly every attempt would find another one.
fn sell(conn: &mut Db, product_id: i64, quantity: i64) -> QueryResult<usize> {
    let row = products::table.find(product_id).filter(products::locked.ge(quantity));
    let changes = (
        products::locked.eq(products::locked - quantity),
        products::sold.eq(products::sold + quantity),
        products::version.eq(products::version + 1_i64),
    );
    diesel::update(row).set(changes).execute(conn)
}

fn release(conn: &mut Db, product_id: i64, quantity: i64) -> QueryResult<usize> {
    let row = products::table.find(product_id).filter(products::locked.ge(quantity));
    let changes = (
        products::locked.eq(products::locked - quantity),
        products::available.eq(products::available + quantity),
        products::version.eq(products::version + 1_i64),
    );
    diesel::update(row).set(changes).execute(conn)
}

pub(in crate::services) fn totals(conn: &mut Db) -> QueryResult<Vec<(i64, i64)>> {
    products::table.select((products::id, products::total)).order(products::id).load(conn)
}

pub(in crate::services) fn read(conn: &mut Db) -> QueryResult<StockReading> {
    conn.transaction(|conn| {
        let columns = (products::id, products::total, products::available, products::locked, products::sold);
        let rows = products::table.select(columns).order(products::id).load::<(i64, i64, i64, i64, i64)>(conn)?;
        let row =
            |(product_id, total, available, locked, sold)| StockRow { product_id, total, available, locked, sold };
        Ok(StockReading { rows: rows.into_iter().map(row).collect(), entries: entries::all(conn)? })
    })
}
