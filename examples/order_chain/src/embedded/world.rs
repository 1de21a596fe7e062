//! Everything that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::Outbox;
use diesel_outbox::consumer::RunningConsumer;
use diesel_outbox::relay::Relay;
use diesel_outbox::transport::{KafkaConfig, KafkaTransport};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{Refused, join};
use crate::Failure;
use crate::broker::{Broker, Brokers};
use crate::cache::{MemoryCache, StockCache};
use crate::domain::{ORDERS, PAYMENT_TERMS};
use crate::reconcile::Reconciler;
use crate::services::ledger::{Ledgers, Service};
use crate::services::sqlite::db::SqlLedgers;
use crate::shop::orders::Orders;
use crate::shop::sqlite::db::SqlOrders;
use crate::shop::{Catalogue, Shop, outbox, producer, relay_limits, sqlite};
use crate::steps::Steps;

const PARTITIONS: i32 = 4;
/// How long a consumer or a relay may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// Between two rounds of the reconciler.
const PAUSE: Duration = Duration::from_millis(200);

/// What there is at the start.
#[derive(Debug, Clone)]
pub struct Stock {
    /// The units of each product, from product 1 on.
    pub units: Vec<i64>,
    /// Coupons from 1 to this.
    pub coupons: i64,
    /// When an unpaid order is closed.
    pub payment_term: Duration,
    /// When a reservation without an order is looked into.
    pub sweep_after: Duration,
}

/// A consumer of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// Closes unpaid orders.
    Close,
    /// Settles the cache.
    Cache,
    /// A service.
    Stock,
    /// A service.
    Coupon,
    /// A service.
    Points,
}

impl Consumer {
    /// Every consumer.
    pub const ALL: [Self; 5] = [Self::Close, Self::Cache, Self::Stock, Self::Coupon, Self::Points];
}

/// The chain. End it with [`end`](Self::end).
pub struct World {
    /// The stand-in for Redis.
    pub cache: Arc<MemoryCache>,
    /// The shop's orders.
    pub orders: Arc<dyn Orders>,
    /// The shop.
    pub shop: Shop,
    /// The services' databases.
    pub ledgers: Arc<dyn Ledgers>,
    /// The reconciler; [`run_reconciler`](Self::run_reconciler) runs it.
    pub reconciler: Reconciler,
    /// The broker.
    pub kafka: MockCluster<'static, DefaultProducerContext>,
    steps: Steps,
    outbox: Outbox,
    relay: Option<Relay>,
    consumers: BTreeMap<Consumer, RunningConsumer>,
    rounds: Option<JoinHandle<()>>,
    folder: TempDir,
}

impl World {
    /// Makes the databases and the topics, and loads the cache. Nothing runs yet.
    ///
    /// # Errors
    /// Returns an error if something cannot be made.
    pub async fn new(stock: &Stock, steps: Steps) -> Result<Self, Failure> {
        Self::build(stock, steps, true).await
    }

    /// The same shop, which tells nobody of its orders.
    ///
    /// # Errors
    /// Returns an error if something cannot be made.
    pub async fn without_messages(stock: &Stock) -> Result<Self, Failure> {
        Self::build(stock, Steps::default(), false).await
    }

    async fn build(stock: &Stock, steps: Steps, has_messages: bool) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let kafka = MockCluster::new(1)?;
        for topic in [ORDERS, PAYMENT_TERMS] {
            kafka.create_topic(topic, PARTITIONS, 1)?;
        }
        let (outbox, cache) = (outbox(Brokers::Kafka)?, Arc::new(MemoryCache::default()));
        let file = folder.path().join("shop.db").display().to_string();
        let pool = sqlite::pool(&file, 16)?;
        let orders = match has_messages {
            true => SqlOrders::new(pool, outbox.clone(), steps.clone()),
            false => SqlOrders::without_messages(pool),
        };
        let prices: Vec<i64> = (1..).map(|number| 250 * number).take(stock.units.len()).collect();
        orders.migrate(&prices).await?;
        let orders: Arc<dyn Orders> = Arc::new(orders);
        let ledgers = SqlLedgers::open(&folder.path().display().to_string())?;
        ledgers.migrate(&stock.units, stock.coupons)?;
        let ledgers: Arc<dyn Ledgers> = Arc::new(ledgers);
        let of_cache: Arc<dyn StockCache> = Arc::clone(&cache) as Arc<_>;
        let catalogue = Catalogue::new(&orders.products().await?, stock.coupons);
        let shop = Shop::new(Arc::clone(&orders), Arc::clone(&of_cache), catalogue, stock.payment_term, steps.clone());
        let reconciler =
            Reconciler::new(Arc::clone(&orders), of_cache, Arc::clone(&ledgers), steps.clone(), stock.sweep_after);
        reconciler.round().await?;
        Ok(Self {
            cache,
            orders,
            shop,
            ledgers,
            reconciler,
            kafka,
            steps,
            outbox,
            relay: None,
            consumers: BTreeMap::new(),
            rounds: None,
            folder,
        })
    }

    /// Starts everything.
    ///
    /// # Errors
    /// Returns an error if something cannot start.
    pub async fn start(&mut self) -> Result<(), Failure> {
        self.start_relay().await?;
        self.start_consumers()?;
        self.run_reconciler();
        Ok(())
    }

    /// Starts every consumer.
    ///
    /// # Errors
    /// Returns an error if one cannot start.
    pub fn start_consumers(&mut self) -> Result<(), Failure> {
        Consumer::ALL.into_iter().try_for_each(|consumer| self.start_consumer(consumer))
    }

    /// Starts the relay.
    ///
    /// # Errors
    /// Returns an error if it cannot start.
    pub async fn start_relay(&mut self) -> Result<(), Failure> {
        let store = sqlite::store(&self.shop_file())?;
        let transport = KafkaTransport::new(producer(&self.kafka.bootstrap_servers()))?;
        let relay = self.outbox.relay().store(store).transport(transport).limits(relay_limits());
        self.relay = Some(relay.start().await?);
        Ok(())
    }

    /// Drops the relay, as a kill does: nothing in flight is waited for.
    pub fn kill_relay(&mut self) {
        self.relay = None;
    }

    /// Starts a consumer, on a pool of its own.
    ///
    /// # Errors
    /// Returns an error if it cannot start.
    pub fn start_consumer(&mut self, consumer: Consumer) -> Result<(), Failure> {
        let kafka = || {
            let config = KafkaConfig::new(self.kafka.bootstrap_servers());
            Broker::Kafka(config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "300"))
        };
        let of_shop = || {
            let pool = sqlite::pool(&self.shop_file(), 6)?;
            Ok::<_, Failure>(SqlOrders::new(pool, self.outbox.clone(), self.steps.clone()))
        };
        let running = match consumer {
            Consumer::Close => of_shop()?.close_unpaid(kafka())?,
            Consumer::Cache => of_shop()?.settle_cache(kafka(), Arc::clone(&self.cache) as Arc<_>)?,
            Consumer::Stock => self.ledgers.start(Service::Stock, kafka())?,
            Consumer::Coupon => self.ledgers.start(Service::Coupon, kafka())?,
            Consumer::Points => self.ledgers.start(Service::Points, kafka())?,
        };
        self.consumers.insert(consumer, running);
        Ok(())
    }

    /// Ends a consumer as a kill does: its handlers are not waited for, and its offsets are not committed, so the next one gets again what it
    /// has processed since its last commit. Unlike one that was killed it leaves its group, so the next one need not wait for that.
    pub async fn kill_consumer(&mut self, consumer: Consumer) {
        let Some(running) = self.consumers.remove(&consumer) else { return };
        let _refused = Refused::by(&self.kafka);
        let report = running.shutdown(Duration::ZERO).await;
        tracing::info!(?consumer, ?report, "a consumer was killed");
    }

    /// Runs the reconciler. A round that dies is followed by the next one.
    pub fn run_reconciler(&mut self) {
        let reconciler = self.reconciler.clone();
        self.rounds = Some(tokio::spawn(async move {
            for number in 1.. {
                let of_round = reconciler.clone();
                let round = tokio::spawn(async move { of_round.tick(number).await });
                if let Some(Err(error)) = join(round).await {
                    tracing::info!(%error, "a round of the reconciler did not end");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }));
    }

    /// The shop's database.
    pub fn shop_file(&self) -> String {
        self.folder.path().join("shop.db").display().to_string()
    }

    /// Ends everything in order.
    ///
    /// # Errors
    /// Returns an error if something did not end in time.
    pub async fn end(mut self) -> Result<(), Failure> {
        if let Some(rounds) = self.rounds.take() {
            rounds.abort();
            // They end only by a panic.
            if rounds.await.is_err_and(|error| error.is_panic()) {
                return Err("the reconciler panicked: see above".into());
            }
        }
        for (consumer, running) in std::mem::take(&mut self.consumers) {
            let report = running.shutdown(GRACE).await;
            if !report.is_clean() {
                return Err(format!("the consumer {consumer:?} did not end in order: {report:?}").into());
            }
        }
        if let Some(relay) = self.relay.take() {
            relay.shutdown(GRACE).await;
        }
        Ok(())
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("shop", &self.shop).finish_non_exhaustive()
    }
}
