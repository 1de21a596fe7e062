//! The tables of the recipe.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

/// Of the shop.
pub(super) const SHOP: &str = "
CREATE TABLE orders (
    id varchar(36) PRIMARY KEY,
    state varchar(9) NOT NULL,
    customer_id bigint NOT NULL,
    product_id bigint NOT NULL,
    quantity bigint NOT NULL,
    coupon_id bigint,
    created_at_ms bigint NOT NULL
);
CREATE TABLE messages (
    id integer PRIMARY KEY AUTOINCREMENT,
    order_id varchar(36) NOT NULL,
    event varchar(9) NOT NULL,
    status integer NOT NULL
);
";

/// Of a service: a row for each order, and what it has done.
pub(super) const SERVICE: &str = "
CREATE TABLE entries (order_id varchar(36) NOT NULL, event varchar(9) NOT NULL, subject_id bigint, amount bigint NOT NULL);
CREATE INDEX entries_of_order ON entries (order_id);
";

/// An order.
#[derive(Debug, Clone, QueryableByName)]
pub(super) struct TaughtOrder {
    #[diesel(sql_type = Text)]
    pub(super) id: String,
    #[diesel(sql_type = Text)]
    pub(super) state: String,
    #[diesel(sql_type = BigInt)]
    pub(super) customer_id: i64,
    #[diesel(sql_type = BigInt)]
    pub(super) product_id: i64,
    #[diesel(sql_type = BigInt)]
    pub(super) quantity: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub(super) coupon_id: Option<i64>,
}

/// A message that waits to be sent.
#[derive(Debug, Clone, QueryableByName)]
pub(super) struct TaughtMessage {
    #[diesel(sql_type = BigInt)]
    pub(super) id: i64,
    #[diesel(sql_type = Text)]
    pub(super) order_id: String,
    #[diesel(sql_type = Text)]
    pub(super) event: String,
}
