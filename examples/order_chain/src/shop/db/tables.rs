//! The shop's tables.

use diesel::dsl::sql;
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use super::super::NOW_MS;
use crate::domain::{Order, OrderRow, OrderState};

diesel::table! {
    products (id) {
        id -> BigInt,
        price_cents -> BigInt,
        generation -> BigInt,
    }
}

diesel::table! {
    orders (id) {
        id -> Text,
        reservation_id -> Text,
        state -> Text,
        customer_id -> BigInt,
        product_id -> BigInt,
        quantity -> BigInt,
        coupon_id -> Nullable<BigInt>,
        total_cents -> BigInt,
        created_at_ms -> BigInt,
        payment_term_ms -> BigInt,
        changed_at_ms -> BigInt,
    }
}

/// Of an order and of the row that refuses its reservation only one can be there: both have the reservation's id.
pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS products (
    id bigint PRIMARY KEY,
    price_cents bigint NOT NULL,
    generation bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS orders (
    id varchar(36) PRIMARY KEY,
    reservation_id varchar(36) NOT NULL UNIQUE,
    state varchar(9) NOT NULL,
    customer_id bigint NOT NULL,
    product_id bigint NOT NULL,
    quantity bigint NOT NULL CHECK (quantity > 0),
    coupon_id bigint,
    total_cents bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    payment_term_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS orders_live_coupon ON orders (coupon_id) WHERE state IN ('created', 'paid');
CREATE INDEX IF NOT EXISTS orders_of_product ON orders (product_id, state);
";

/// The database's time.
pub(super) fn now_ms() -> SqlLiteral<BigInt> {
    sql(NOW_MS)
}

/// A row as it is read.
pub(super) type Row = (String, String, String, i64, i64, i64, Option<i64>, i64, i64, i64, i64);

/// Without a state of ours the row is not the shop's.
pub(super) fn order_row(row: Row) -> QueryResult<OrderRow> {
    let (id, reservation_id, state, customer_id, product_id, quantity, coupon_id, total_cents, _, _, changed_at_ms) =
        row;
    let state = OrderState::of_text(&state)
        .ok_or_else(|| diesel::result::Error::DeserializationError(format!("no order has the state {state}").into()))?;
    let order = Order { id, reservation_id, customer_id, product_id, quantity, coupon_id, total_cents };
    Ok(OrderRow { order, state, changed_at_ms })
}
