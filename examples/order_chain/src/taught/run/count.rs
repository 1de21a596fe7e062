//! Counts what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use diesel::sql_types::{BigInt, Text};
use diesel_async::RunQueryDsl;

use super::World;
use crate::Failure;
use crate::embedded::Settings;
use crate::load::told::Answers;
use crate::report::Outcome;
use crate::services::ledger::Service;
use crate::taught::jobs;
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

/// Whether no order waits for its end, and every service has processed every message.
pub(super) async fn has_settled(world: &World) -> Result<bool, Failure> {
    let mut shop = world.shop.get().await?;
    let open = "SELECT count(*) AS count FROM orders WHERE state = 'created'";
    let open: Many = diesel::sql_query(open).get_result(&mut *shop).await?;
    let told = "SELECT count(DISTINCT order_id || event) AS count FROM messages";
    let told: Many = diesel::sql_query(told).get_result(&mut *shop).await?;
    if open.count > 0 || !jobs::all_sent(&world.shop).await? {
        return Ok(false);
    }
    for pool in world.services.values() {
        let known = "SELECT count(DISTINCT order_id || event) AS count FROM entries";
        let known: Many = diesel::sql_query(known).get_result(&mut *pool.get().await?).await?;
        if known.count < told.count {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is wrong after a run.
pub(super) async fn count(
    world: &World,
    settings: &Settings,
    differences: &[(i64, i64)],
    answers: &mut Answers,
) -> Result<Outcome, Failure> {
    let mut conn = world.shop.get().await?;
    let orders: Vec<TaughtOrder> = diesel::sql_query("SELECT * FROM orders").load(&mut *conn).await?;
    let both = "SELECT count(*) AS count FROM (SELECT order_id FROM messages WHERE event <> 'created'
                GROUP BY order_id HAVING count(DISTINCT event) > 1)";
    let both: Many = diesel::sql_query(both).get_result(&mut *conn).await?;
    let mut oversold_units = 0;
    for product_id in (1_i64..).take(settings.products) {
        let live = orders.iter().filter(|order| order.product_id == product_id && order.state != "cancelled");
        let live: i64 = live.map(|order| order.quantity).sum();
        oversold_units += (live - settings.units).max(0);
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
    Ok(Outcome {
        orders: orders.len(),
        oversold_units,
        drift_units: differences.iter().map(|(_, units)| units.abs()).sum(),
        missing,
        doubled,
        coupons_doubled: coupons.values().filter(|count| **count > 1).count(),
        paid_and_closed: usize::try_from(both.count)?,
        unknown_to_customer: orders.iter().filter(|order| !known.contains(&order.id)).count(),
        p50: answers.latency(50),
        p99: answers.latency(99),
    })
}
