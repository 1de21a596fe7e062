//! Brokers and databases that die under load and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diesel::connection::Connection as _;
use diesel::mysql::MysqlConnection;
use diesel_async::{AsyncConnection, AsyncPgConnection};
use diesel_outbox::Outbox;
use diesel_outbox::relay::{Relay, TransportStatus};
use tokio::task::JoinHandle;
use xtask::servers::{Kafka, Mariadb, Postgres, ServerKind, kafka, mariadb, postgres};
use xtask::test_servers;

use super::any_shop::{AnyShop, SyncConnection as _};
use super::audit::audit;
use super::shop::{DEADLINE, Shop, limits, order};
use crate::outbox::databases::fresh_on_mariadb;

/// Orders without end, through failures of the database too; until it is dropped.
struct Load {
    done: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Load {
    fn start(shop: &Shop, outbox: &Outbox) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn({
            let (shop, outbox, done) = (shop.clone(), outbox.clone(), Arc::clone(&done));
            async move {
                let mut number = 0;
                while !done.load(Ordering::Acquire) {
                    // No database: a customer who tries again.
                    let Ok(mut connection) = AsyncPgConnection::establish(&shop.database_url).await else {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    };
                    while !done.load(Ordering::Acquire)
                        && Shop::place(&mut connection, &outbox, &shop.topic, number).await.is_ok()
                    {
                        number += 1;
                    }
                    number += 1;
                }
            }
        });
        Self { done, task }
    }

    /// The same on MariaDB, by a connection that blocks.
    fn start_on_mariadb(shop: &Shop, outbox: &Outbox) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let task = tokio::task::spawn_blocking({
            let (shop, outbox, done) = (shop.clone(), outbox.clone(), Arc::clone(&done));
            move || {
                let mut number = 0;
                while !done.load(Ordering::Acquire) {
                    let Ok(mut connection) = MysqlConnection::establish(&shop.database_url) else {
                        std::thread::park_timeout(Duration::from_millis(50));
                        continue;
                    };
                    while !done.load(Ordering::Acquire)
                        && connection.place(&outbox, &order(&shop.topic, number), number).is_ok()
                    {
                        number += 1;
                    }
                    number += 1;
                }
            }
        });
        Self { done, task }
    }

    async fn end(mut self) {
        self.done.store(true, Ordering::Release);
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Load {
    /// A runtime waits at its end for what blocks.
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
    }
}

/// Waits for a state.
pub(super) async fn until(what: &str, mut state: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state().await {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn orders_pass(shop: &Shop, count: usize) {
    let before = shop.committed().await.len();
    until("orders are placed", async || shop.committed().await.len() >= before + count).await;
}

fn is_down(relay: &Relay) -> bool {
    matches!(relay.status().transport, TransportStatus::Down { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_under_load_costs_time_only() {
    let Some(database) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    let Some(mut broker) = test_servers::own_or_skip(Kafka::start(&kafka::Options::default())) else { return };
    let shop = Shop::open_on(&database, &broker.bootstrap()).await;
    let outbox = shop.outbox();
    let relay = shop.start_relay(&outbox).await;
    let load = Load::start(&shop, &outbox);
    orders_pass(&shop, 200).await;
    broker.kill9().unwrap();
    until("the breaker is open", async || is_down(&relay)).await;
    orders_pass(&shop, 200).await;
    let (attempts, _) = shop.highest_attempts_and_failures().await;
    assert_eq!(attempts, 0, "an outage spends no attempt");
    broker.start_again().unwrap();
    until("the broker is back", async || relay.status().transport == TransportStatus::Up).await;
    orders_pass(&shop, 100).await;
    load.end().await;
    shop.wait_until_drained().await;
    let report = relay.shutdown(Duration::from_secs(20)).await;
    assert!(report.is_clean(), "{report:?}");
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.dead_letters), (audit.committed, 0), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_absent_at_start_is_waited_for() {
    let Some(database) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    let Some(mut broker) = test_servers::own_or_skip(Kafka::start(&kafka::Options::default())) else { return };
    let shop = Shop::open_on(&database, &broker.bootstrap()).await;
    broker.kill9().unwrap();
    let outbox = shop.outbox();
    let relay = shop.start_relay(&outbox).await;
    assert!(is_down(&relay), "{:?}", relay.status());
    shop.place_all(&outbox, 0..50).await;
    broker.start_again().unwrap();
    shop.wait_until_drained().await;
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.dead_letters, audit.duplicates), (audit.committed, 0, 0), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_killed_under_load_causes_no_loss_and_no_phantom() {
    let Some(bootstrap) = test_servers::shared_or_skip(ServerKind::Kafka) else { return };
    let Some(mut database) = test_servers::own_or_skip(Postgres::start(&postgres::Options::default())) else { return };
    let shop = Shop::open_on(&database.url(), &bootstrap).await;
    let outbox = shop.outbox();
    let relay = shop.start_relay(&outbox).await;
    let load = Load::start(&shop, &outbox);
    orders_pass(&shop, 200).await;
    database.kill9().unwrap();
    database.start_again().unwrap();
    orders_pass(&shop, 200).await;
    load.end().await;
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.dead_letters), (audit.committed, 0), "{audit:?}");
}

/// Commits are in the kernel's hands when they are answered, and survive the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_mariadb_killed_under_load_causes_no_loss_and_no_phantom() {
    let Some(bootstrap) = test_servers::shared_or_skip(ServerKind::Kafka) else { return };
    let Some(mut database) = test_servers::own_or_skip(Mariadb::start(&mariadb::Options::default())) else { return };
    let shop = AnyShop::on_mariadb(fresh_on_mariadb(&database.url()), bootstrap);
    let outbox = shop.at.outbox();
    let relay = outbox.relay().transport(shop.at.kafka()).limits(limits());
    let relay = shop.on.store(relay, &shop.at).start().await.unwrap();
    let load = Load::start_on_mariadb(&shop.at, &outbox);
    until("orders are placed", async || shop.committed().await.len() >= 200).await;
    database.kill9().unwrap();
    database.start_again().unwrap();
    let before = shop.committed().await.len();
    until("orders are placed again", async || shop.committed().await.len() >= before + 200).await;
    load.end().await;
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
    let audit = shop.audit().await;
    assert_eq!((audit.delivered, audit.dead_letters), (audit.committed, 0), "{audit:?}");
}
