//! A process of the chain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::consumer::RunningConsumer;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::Places;
use super::transports::{broker, relay};
use crate::Failure;
use crate::cache::{RedisCache, StockCache};
use crate::domain::{ORDERS, PAYMENT_TERMS};
use crate::reconcile::Reconciler;
use crate::services::ledger::{Ledgers, Service};
use crate::services::mariadb::db::SqlLedgers;
use crate::shop::orders::Orders;
use crate::shop::postgres::db::SqlOrders;
use crate::shop::{Catalogue, Shop, outbox, postgres, web};
use crate::steps::Steps;

/// How long a part may take to end in order.
const GRACE: Duration = Duration::from_secs(15);
/// Between two rounds of the reconciler.
const PAUSE: Duration = Duration::from_millis(300);
/// Connections of a shop for requests.
const REQUESTS: usize = 16;

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Role {
    /// Takes orders at this address, and relays the messages.
    Shop(SocketAddr),
    /// Closes unpaid orders.
    Close,
    /// Settles the cache.
    Cache,
    /// The stock service.
    Stock,
    /// The coupon service.
    Coupon,
    /// The points service.
    Points,
    /// The reconciler.
    Reconciler,
}

/// The configuration of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Config {
    pub(super) role: Role,
    pub(super) places: Places,
}

/// Runs a part until SIGTERM, or until the driver is gone.
pub(super) async fn run(config: Config) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let places = &config.places;
    match config.role {
        Role::Shop(address) => {
            let mut app = web::router(shop(places).await?);
            let relay = if places.has_messages { Some(relay(places).await?) } else { None };
            if let Some(relay) = &relay {
                let store = postgres::store(&places.postgres)?;
                let dashboard = web::dashboard(&outbox(places.brokers)?, store, &format!("http://{address}"));
                let dashboard = dashboard.relay(relay.handle());
                app = app.nest(web::DASHBOARD, dashboard.router());
            }
            let listener = TcpListener::bind(address).await?;
            let stop = async move {
                terminate.recv().await;
            };
            axum::serve(listener, app).with_graceful_shutdown(stop).await?;
            if let Some(relay) = relay {
                relay.shutdown(GRACE).await;
            }
        }
        Role::Reconciler => {
            let reconciler = reconciler(places)?;
            tokio::select! {
                () = reconciler.run(PAUSE) => {}
                _ = terminate.recv() => {}
            }
        }
        role => {
            let consumer = consumer(role, places)?;
            terminate.recv().await;
            consumer.shutdown(GRACE).await;
        }
    }
    Ok(())
}

pub(super) fn orders(places: &Places, connections: usize) -> Result<SqlOrders, Failure> {
    let pool = postgres::pool(&places.postgres, connections)?;
    Ok(match places.has_messages {
        true => SqlOrders::new(pool, outbox(places.brokers)?, Steps::default()),
        false => SqlOrders::without_messages(pool),
    })
}

pub(super) fn reconciler(places: &Places) -> Result<Reconciler, Failure> {
    let orders: Arc<dyn Orders> = Arc::new(orders(places, 4)?);
    let cache: Arc<dyn StockCache> = Arc::new(RedisCache::new(&places.redis)?);
    let ledgers: Arc<dyn Ledgers> = Arc::new(SqlLedgers::open(&places.mariadb)?);
    Ok(Reconciler::new(orders, cache, ledgers, Steps::default(), places.sweep_after))
}

async fn shop(places: &Places) -> Result<Shop, Failure> {
    let orders: Arc<dyn Orders> = Arc::new(orders(places, REQUESTS)?);
    let cache: Arc<dyn StockCache> = Arc::new(RedisCache::new(&places.redis)?);
    let catalogue = Catalogue::new(&orders.products().await?, places.coupons);
    Ok(Shop::new(orders, cache, catalogue, places.payment_term, Steps::default()))
}

fn consumer(role: Role, places: &Places) -> Result<RunningConsumer, Failure> {
    let ledgers = || SqlLedgers::open(&places.mariadb);
    match role {
        Role::Close => orders(places, 6)?.close_unpaid(broker(places, PAYMENT_TERMS)),
        Role::Cache => {
            orders(places, 6)?.settle_cache(broker(places, ORDERS), Arc::new(RedisCache::new(&places.redis)?))
        }
        Role::Stock => ledgers()?.start(Service::Stock, broker(places, ORDERS)),
        Role::Coupon => ledgers()?.start(Service::Coupon, broker(places, ORDERS)),
        Role::Points => ledgers()?.start(Service::Points, broker(places, ORDERS)),
        Role::Shop(_) | Role::Reconciler => Err("it is no consumer".into()),
    }
}
