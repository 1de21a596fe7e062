//! The row that each service has for each order.

use diesel::prelude::*;
use diesel_outbox::consumer::HandlerError;

use super::super::Db;
use super::tables::entries;
use crate::domain::OrderEvent;
use crate::services::ledger::Entry;
use crate::services::phase::{IllegalChange, Phase};

/// Moves an order's row on, and returns its new phase.
///
/// A change that does not fit is refused for good: another attempt would find the same.
pub(super) fn advance(conn: &mut Db, event: &OrderEvent, subject_id: i64, amount: i64) -> Result<Phase, HandlerError> {
    let (order_id, to) = (&event.order().id, Phase::of_event(event));
    let from = phase(conn, order_id)?;
    if !to.may_follow(from) {
        return Err(HandlerError::permanent(IllegalChange { order_id: order_id.clone(), from, to }));
    }
    let changed = match from {
        None => {
            let row = Entry { order_id: order_id.clone(), subject_id, amount, phase: to };
            insert(conn, &row)?
        }
        Some(from) => {
            let row = entries::table.find(order_id).filter(entries::phase.eq(from.text()));
            diesel::update(row).set(entries::phase.eq(to.text())).execute(conn)?
        }
    };
    match changed {
        1 => Ok(to),
        // Messages of one order come one after the other, so nobody else changes its row.
        _ => Err(HandlerError::retriable(IllegalChange { order_id: order_id.clone(), from, to })),
    }
}

fn insert(conn: &mut Db, row: &Entry) -> QueryResult<usize> {
    let values = (
        entries::order_id.eq(&row.order_id),
        entries::subject_id.eq(row.subject_id),
        entries::amount.eq(row.amount),
        entries::phase.eq(row.phase.text()),
    );
    diesel::insert_into(entries::table).values(values).execute(conn)
}

fn phase(conn: &mut Db, order_id: &str) -> QueryResult<Option<Phase>> {
    let text: Option<String> = entries::table.find(order_id).select(entries::phase).first(conn).optional()?;
    text.map(|text| of_text(&text)).transpose()
}

fn of_text(text: &str) -> QueryResult<Phase> {
    let unknown = || diesel::result::Error::DeserializationError(format!("no order has the phase {text}").into());
    Phase::of_text(text).ok_or_else(unknown)
}

/// Every entry.
pub(super) fn all(conn: &mut Db) -> QueryResult<Vec<Entry>> {
    let rows = entries::table.order(entries::order_id).load::<(String, i64, i64, String)>(conn)?;
    let entry = |(order_id, subject_id, amount, phase): (String, i64, i64, String)| {
        Ok(Entry { order_id, subject_id, amount, phase: of_text(&phase)? })
    };
    rows.into_iter().map(entry).collect()
}
