//! The points service: promises points with an order, and books them with its payment.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_outbox::consumer::{HandlerError, Record};

use super::super::Db;
use super::entries;
use super::tables::{ACCOUNTS, ENTRIES, accounts};
use crate::domain::OrderEvent;
use crate::services::ledger::PointsReading;
use crate::services::phase::Phase;

pub(in crate::services) fn migrate(conn: &mut Db) -> QueryResult<()> {
    conn.batch_execute(&format!("{ENTRIES}{ACCOUNTS}"))
}

pub(in crate::services) fn handle(conn: &mut Db, record: &Record) -> Result<(), HandlerError> {
    let event: OrderEvent = record.decode()?;
    apply(conn, &event)
}

pub(in crate::services) fn apply(conn: &mut Db, event: &OrderEvent) -> Result<(), HandlerError> {
    let (customer_id, points) = (event.order().customer_id, event.order().points());
    if entries::advance(conn, event, customer_id, points)? == Phase::Paid {
        book(conn, customer_id, points)?;
    }
    Ok(())
}

fn book(conn: &mut Db, customer_id: i64, points: i64) -> QueryResult<()> {
    let empty = (accounts::customer_id.eq(customer_id), accounts::points.eq(0_i64));
    diesel::insert_or_ignore_into(accounts::table).values(empty).execute(conn)?;
    let more = accounts::points.eq(accounts::points + points);
    diesel::update(accounts::table.find(customer_id)).set(more).execute(conn)?;
    Ok(())
}

pub(in crate::services) fn read(conn: &mut Db) -> QueryResult<PointsReading> {
    conn.transaction(|conn| {
        let accounts = accounts::table.order(accounts::customer_id).load(conn)?;
        Ok(PointsReading { accounts, entries: entries::all(conn)? })
    })
}
