//! The services' tables.

diesel::table! {
    entries (order_id) {
        order_id -> Text,
        subject_id -> BigInt,
        amount -> BigInt,
        phase -> Text,
    }
}

diesel::table! {
    products (id) {
        id -> BigInt,
        total -> BigInt,
        available -> BigInt,
        locked -> BigInt,
        sold -> BigInt,
        version -> BigInt,
    }
}

diesel::table! {
    coupons (id) {
        id -> BigInt,
        orders -> BigInt,
    }
}

diesel::table! {
    accounts (customer_id) {
        customer_id -> BigInt,
        points -> BigInt,
    }
}

/// What every service has: one row for each order.
pub(super) const ENTRIES: &str = "
CREATE TABLE IF NOT EXISTS entries (
    order_id varchar(36) NOT NULL PRIMARY KEY,
    subject_id bigint NOT NULL,
    amount bigint NOT NULL,
    phase varchar(9) NOT NULL
);
";

/// Of the stock. The checks are the last defence: no bug anywhere can make a unit, or lose one.
pub(super) const PRODUCTS: &str = "
CREATE TABLE IF NOT EXISTS products (
    id bigint NOT NULL PRIMARY KEY,
    total bigint NOT NULL,
    available bigint NOT NULL,
    locked bigint NOT NULL CHECK (locked >= 0),
    sold bigint NOT NULL CHECK (sold >= 0),
    version bigint NOT NULL,
    CHECK (available + locked + sold = total)
);
";

/// Of the coupons, with how many orders have each and are not closed: more than one only until the end of a closed one is heard of.
pub(super) const COUPONS: &str = "
CREATE TABLE IF NOT EXISTS coupons (
    id bigint NOT NULL PRIMARY KEY,
    orders bigint NOT NULL DEFAULT 0 CHECK (orders >= 0)
);
";

/// Of the points.
pub(super) const ACCOUNTS: &str = "
CREATE TABLE IF NOT EXISTS accounts (
    customer_id bigint NOT NULL PRIMARY KEY,
    points bigint NOT NULL
);
";
