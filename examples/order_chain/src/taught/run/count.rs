//! Counts what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use diesel::sql_types::{BigInt, Text};
use diesel_async::RunQueryDsl;

use super::World;
use crate::Failure;
use crate::embedded::Settings;
use crate::load::told::Answers;
use crate::services::ledger::Service;
use crate::taught::tables::TaughtOrder;

#[derive(diesel::QueryableByName)]
struct Entry {
    #[diesel(sql_type = Text)]
    order_id: String,
    #[diesel(sql_type = Text)]
    event: String,
}

#[derive(diesel::QueryableByName)]
struct Many {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// What is wrong after a run.
#[derive(Debug)]
pub(super) struct Counted {
    orders: usize,
    p50: Duration,
    p99: Duration,
    oversold_units: i64,
    drift_units: i64,
    missing: usize,
    doubled: usize,
    coupons_doubled: usize,
    paid_and_closed: i64,
    unknown_to_customer: usize,
}

pub(super) async fn count(world: &World, settings: &Settings, answers: &mut Answers) -> Result<Counted, Failure> {
    let mut conn = world.shop.get().await?;
    let orders: Vec<TaughtOrder> = diesel::sql_query("SELECT * FROM orders").load(&mut *conn).await?;
    let both = "SELECT count(*) AS count FROM (SELECT order_id FROM messages WHERE event <> 'created'
                GROUP BY order_id HAVING count(DISTINCT event) > 1)";
    let both: Many = diesel::sql_query(both).get_result(&mut *conn).await?;
    let (mut oversold_units, mut drift_units) = (0, 0);
    for product_id in (1_i64..).take(settings.products) {
        let live = orders.iter().filter(|order| order.product_id == product_id && order.state != "cancelled");
        let live: i64 = live.map(|order| order.quantity).sum();
        oversold_units += (live - settings.units).max(0);
        let cached = world.cache.stock(product_id).await?.unwrap_or(settings.units - live);
        drift_units += (settings.units - live - cached).abs();
    }
    let mut coupons: BTreeMap<i64, usize> = BTreeMap::new();
    for order in orders.iter().filter(|order| order.state != "cancelled") {
        order.coupon_id.into_iter().for_each(|id| *coupons.entry(id).or_default() += 1);
    }
    let (mut missing, mut doubled) = (0, 0);
    for service in Service::ALL {
        let mut conn = world.services[service.name()].get().await?;
        let entries: Vec<Entry> = diesel::sql_query("SELECT order_id, event FROM entries").load(&mut *conn).await?;
        let distinct: BTreeSet<(&str, &str)> =
            entries.iter().map(|entry| (entry.order_id.as_str(), entry.event.as_str())).collect();
        doubled += entries.len() - distinct.len();
        missing += orders.iter().filter(|order| !distinct.contains(&(order.id.as_str(), order.state.as_str()))).count();
    }
    let known = &answers.placed;
    Ok(Counted {
        orders: orders.len(),
        oversold_units,
        drift_units,
        missing,
        doubled,
        coupons_doubled: coupons.values().filter(|count| **count > 1).count(),
        paid_and_closed: both.count,
        unknown_to_customer: orders.iter().filter(|order| !known.contains(&order.id)).count(),
        p50: answers.latency(50),
        p99: answers.latency(99),
    })
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        writeln!(
            f,
            "orders: {}; POST /orders: p50 {:.1} ms, p99 {:.1} ms",
            self.orders,
            millis(self.p50),
            millis(self.p99)
        )?;
        writeln!(f, "units oversold: {}", self.oversold_units)?;
        writeln!(f, "units by which the cache differs from the orders: {}", self.drift_units)?;
        writeln!(f, "messages that never reached a service: {}", self.missing)?;
        writeln!(f, "messages that a service processed twice: {}", self.doubled)?;
        writeln!(f, "coupons of several orders: {}", self.coupons_doubled)?;
        writeln!(f, "orders paid and closed at once: {}", self.paid_and_closed)?;
        write!(f, "orders that their customer was not told of: {}", self.unknown_to_customer)
    }
}
