//! The services that follow an order: stock, coupons and points. Each has its own database, and hears of orders by messages alone.

pub mod ledger;
#[cfg(feature = "servers")]
pub mod mariadb;
pub mod phase;
pub mod sqlite;
