//! The stock in Redis: how many units of each product may still be ordered, and which deductions took the others.
//!
//! It answers fast and under one lock for each product, but it is only a cache: it may lose everything at any time. What makes it safe is
//! the *generation* of each product. The cache names it with each deduction, and an order commits only if the shop's database has the same.
//! A rebuild raises it in the database first, so that no order can stand on a deduction that the rebuild does not know.

mod memory;
#[cfg(feature = "servers")]
mod redis;

use async_trait::async_trait;

pub use self::memory::{Change, MemoryCache};
#[cfg(feature = "servers")]
pub use self::redis::RedisCache;

/// The cache did not answer. Whether it did what was asked is not known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the stock's cache does not answer: {0}")]
pub struct CacheAway(pub String);

/// Units of a product that were deducted for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Each deduction has its own.
    pub id: String,
    /// The order that it was made for.
    pub order_id: String,
    /// Of which product.
    pub product_id: i64,
    /// How many.
    pub quantity: i64,
}

/// The answer to [`StockCache::deduct`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deduction {
    /// The units are deducted.
    Deducted {
        /// The generation in which they were.
        generation: i64,
    },
    /// They were deducted for this order before, by this reservation.
    DeductedBefore {
        /// The generation in which they were.
        generation: i64,
        /// The earlier reservation.
        reservation: Reservation,
    },
    /// There are not so many units.
    NotEnough {
        /// There are these.
        available: i64,
    },
    /// The cache does not have the product.
    UnknownProduct,
}

/// A reservation in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The reservation.
    pub reservation: Reservation,
    /// For how long it has been there, by the cache's clock.
    pub age_ms: i64,
}

/// What the cache has of a product, read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shelf {
    /// The generation that it was loaded with.
    pub generation: i64,
    /// Units that may be ordered.
    pub available: i64,
    /// Units of paid orders.
    pub sold: i64,
    /// Deducted, and neither paid nor given back.
    pub reserved: Vec<Reserved>,
}

impl Shelf {
    /// Units that are deducted.
    pub fn reserved_units(&self) -> i64 {
        self.reserved.iter().map(|reserved| reserved.reservation.quantity).sum()
    }
}

/// What a rebuild puts into the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Of which product.
    pub product_id: i64,
    /// The product's new generation.
    pub generation: i64,
    /// Units that may be ordered.
    pub available: i64,
    /// Units of paid orders.
    pub sold: i64,
    /// The reservations of orders that wait for their payment.
    pub reserved: Vec<Reservation>,
}

/// The stock's cache. Each call is atomic.
#[async_trait]
pub trait StockCache: Send + Sync {
    /// Deducts units for an order, unless units were deducted for it before: the check and the deduction are one step.
    async fn deduct(&self, reservation: &Reservation) -> Result<Deduction, CacheAway>;

    /// Makes the units of a reservation available again. Does nothing, and returns `false`, if it is not there.
    async fn give_back(&self, reservation: &Reservation) -> Result<bool, CacheAway>;

    /// Counts the units of a reservation as sold. Does nothing, and returns `false`, if it is not there.
    async fn sell(&self, reservation: &Reservation) -> Result<bool, CacheAway>;

    /// What there is of a product; `None` if it has to be loaded.
    async fn read(&self, product_id: i64) -> Result<Option<Shelf>, CacheAway>;

    /// Replaces what there is of a product. Does nothing, and returns `false`, if a later generation is there.
    async fn load(&self, load: &Load) -> Result<bool, CacheAway>;

    /// Removes a product, which then has to be loaded.
    async fn unload(&self, product_id: i64) -> Result<(), CacheAway>;
}
