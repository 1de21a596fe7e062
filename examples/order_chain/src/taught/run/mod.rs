//! The same load and the same faults as in `embedded`, and what is wrong afterwards.

mod count;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_async::SimpleAsyncConnection;
use diesel_async::pooled_connection::deadpool::Pool;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::cache::TaughtCache;
use super::shop::{TaughtShop, router};
use super::tables::{SERVICE, SHOP};
use super::{Reconciled, consumers, jobs, reconcile};
use crate::Failure;
use crate::domain::ORDERS;
use crate::embedded::{BROKER_AWAY, CACHE_AWAY, Deaths, Fault, Planned, Refused, Settings, plan, world};
use crate::load::client::{Client, InProcess};
use crate::load::stop::StopLoad;
use crate::load::told::Told;
use crate::load::zipf::Zipf;
use crate::load::{self, Load, Measured};
use crate::report::Outcome;
use crate::services::ledger::Service;
use crate::shop::sqlite::{self, Db};

const COUPONS: i64 = 2_000;
const PAYMENT_TERM: Duration = Duration::from_secs(2);
/// How long after the load everything must be sent: as long as the embedded run waits for quiet.
const SENT_MAX: Duration = Duration::from_secs(60);
/// For the services to process what was sent: the recipe has no end that can be recognised.
pub(crate) const REST: Duration = Duration::from_secs(15);

/// Connections of the shop, as many as the chain's shop has.
const CONNECTIONS: usize = 16;
/// Between two looks whether everything has arrived.
const POLL: Duration = Duration::from_millis(250);
/// How long after a measured load everything may take to arrive.
pub(crate) const SETTLED_MAX: Duration = Duration::from_secs(180);

struct World {
    cache: Arc<TaughtCache>,
    shop: Pool<Db>,
    services: BTreeMap<&'static str, Pool<Db>>,
    kafka: MockCluster<'static, DefaultProducerContext>,
    tasks: BTreeMap<&'static str, JoinHandle<()>>,
    _folder: TempDir,
}

/// Runs the chain as it is taught, and prints what is wrong afterwards.
///
/// # Errors
/// Returns an error if the run itself failed.
pub async fn run(settings: &Settings) -> Result<(), Failure> {
    let (outcome, reconciled) = run_through(settings, REST).await?;
    let (seed, load) = (settings.seed, settings.load.as_secs_f64());
    println!("\nas it is taught, seed {seed}, {load:.0} s of load\n{outcome}{reconciled}");
    Ok(())
}

/// What the chain as it is taught came to, in the faults of the embedded run's plan, and what its own reconciler says of it. What was sent
/// has so long to be processed.
///
/// # Errors
/// Returns an error if the run itself failed.
pub(crate) async fn run_through(settings: &Settings, rest: Duration) -> Result<(Outcome, Reconciled), Failure> {
    let deaths = Deaths::new(settings.seed);
    let (mut world, client) = World::start_all(settings, &deaths).await?;
    let (told, stop) = (Arc::new(Told::default()), StopLoad::default());
    let zipf = Zipf::new(settings.products, 1.1);
    let load = Load { zipf, coupons: COUPONS, payment_term: PAYMENT_TERM, stop: stop.clone() };
    let customers = load::start(settings.customers, settings.seed, &load, &client, &told);
    deaths.begin(settings.one_of_dies);
    world.faults(settings.seed, settings.load).await?;
    stop.cancel();
    customers.join_all().await;
    deaths.begin(0);
    // What is only late is not to be counted as missing.
    let rests = Instant::now();
    while rests.elapsed() < SENT_MAX && !jobs::all_sent(&world.shop).await? {
        sleep(POLL).await;
    }
    sleep(rest).await;
    let mut answers = std::mem::take(&mut *told.answers());
    let there_were = (settings.products, settings.units);
    let differences = reconcile::differences(&world.shop, &world.cache, there_were).await?;
    let outcome = count::count(&world, settings, &differences, &mut answers).await?;
    world.end().await;
    Ok((outcome, Reconciled::of(&differences)))
}

/// Runs the load on the chain as it is taught, without faults. Returns also the orders a second until every service knew all of them.
pub(crate) async fn measure(settings: &Settings, load: &Load) -> Result<(Measured, f64), Failure> {
    let (world, client) = World::start_all(settings, &Deaths::new(settings.seed)).await?;
    let measured = load::measure((settings.customers, settings.seed, settings.load), load, client, || {}).await;
    let began = Instant::now();
    while !count::has_settled(&world).await? {
        if began.elapsed() > SETTLED_MAX {
            println!(
                "as it is taught: {SETTLED_MAX:?} after the load a service lacks messages; this counts as their end"
            );
            break;
        }
        sleep(POLL).await;
    }
    let to_the_end = measured.a_second_until_now();
    world.end().await;
    Ok((measured, to_the_end))
}

impl World {
    /// Everything, and a way to the shop.
    async fn start_all(settings: &Settings, deaths: &Deaths) -> Result<(Self, Arc<dyn Client>), Failure> {
        let mut world = Self::new().await?;
        for product_id in (1_i64..).take(settings.products) {
            world.cache.set_stock(product_id, settings.units).await?;
        }
        for task in world.names() {
            world.start(task)?;
        }
        let (pool, cache) = (world.shop.clone(), Arc::clone(&world.cache));
        let shop = TaughtShop { pool, cache, steps: deaths.steps(), units: settings.units };
        Ok((world, Arc::new(InProcess(router(shop)))))
    }

    async fn new() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let kafka = MockCluster::new(1)?;
        kafka.create_topic(ORDERS, 4, 1)?;
        let open = async |name: &str, tables: &str| {
            let pool = sqlite::pool(&folder.path().join(name).display().to_string(), CONNECTIONS)?;
            pool.get().await?.batch_execute(tables).await?;
            Ok::<_, Failure>(pool)
        };
        let shop = open("shop.db", SHOP).await?;
        let mut services = BTreeMap::new();
        for service in Service::ALL {
            services.insert(service.name(), open(&format!("{}.db", service.name()), SERVICE).await?);
        }
        let cache = Arc::default();
        Ok(Self { cache, shop, services, kafka, tasks: BTreeMap::new(), _folder: folder })
    }

    fn names(&self) -> Vec<&'static str> {
        self.services.keys().copied().chain(["send", "close"]).collect()
    }

    fn start(&mut self, name: &'static str) -> Result<(), Failure> {
        let (shop, bootstrap) = (self.shop.clone(), self.kafka.bootstrap_servers());
        let task = match name {
            "send" => {
                let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
                tokio::spawn(jobs::send(shop, producer))
            }
            "close" => tokio::spawn(jobs::close(shop, Arc::clone(&self.cache), PAYMENT_TERM)),
            name => {
                let service = Service::ALL.into_iter().find(|service| service.name() == name);
                let service = service.ok_or_else(|| format!("no service is called {name}"))?;
                let consuming = consumers::consume(service, self.services[name].clone(), bootstrap);
                tokio::spawn(async move {
                    if let Err(error) = consuming.await {
                        tracing::error!(%error, name, "a service has ended");
                    }
                })
            }
        };
        self.tasks.insert(name, task);
        Ok(())
    }

    /// Those of the embedded run's plan.
    async fn faults(&mut self, seed: u64, lasts: Duration) -> Result<(), Failure> {
        let began = Instant::now();
        for Planned { at, fault } in plan(seed, lasts) {
            sleep(at.saturating_sub(began.elapsed())).await;
            println!("{fault}");
            self.cause(fault).await?;
        }
        sleep(lasts.saturating_sub(began.elapsed())).await;
        Ok(())
    }

    async fn cause(&mut self, fault: Fault) -> Result<(), Failure> {
        match fault {
            Fault::Flush => self.cache.flush(),
            Fault::CacheAway => {
                self.cache.set_away(true);
                sleep(CACHE_AWAY).await;
                self.cache.set_away(false);
            }
            Fault::BrokerAway => {
                self.kafka.broker_down(1)?;
                sleep(BROKER_AWAY).await;
                self.kafka.broker_up(1)?;
            }
            Fault::RelayKilled => self.restart("send").await?,
            // The recipe's job that closes orders also gives their units back to the cache.
            Fault::ConsumerKilled(world::Consumer::Close | world::Consumer::Cache) => self.restart("close").await?,
            Fault::ConsumerKilled(world::Consumer::Stock) => self.restart(Service::Stock.name()).await?,
            Fault::ConsumerKilled(world::Consumer::Coupon) => self.restart(Service::Coupon.name()).await?,
            Fault::ConsumerKilled(world::Consumer::Points) => self.restart(Service::Points.name()).await?,
        }
        Ok(())
    }

    /// Kills a task, as the embedded run kills its consumers: a service commits no offset at the end. A job has none, and a refusal would
    /// hit the services that join their groups meanwhile: these then never read.
    async fn restart(&mut self, name: &'static str) -> Result<(), Failure> {
        if let Some(task) = self.tasks.remove(name) {
            let _refused = self.services.contains_key(name).then(|| Refused::by(&self.kafka));
            task.abort();
            drop(task.await);
        }
        self.start(name)
    }

    /// Ends what runs before the broker goes: a client that leaves its group after that blocks a thread of the runtime, and whatever runs next
    /// with it.
    async fn end(mut self) {
        for (_, task) in std::mem::take(&mut self.tasks) {
            task.abort();
            drop(task.await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--as-taught` does, for a shorter time. On a busy machine its consumers need a while to read what is sent.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_recipe_is_counted_after_load_and_faults() {
        let settings = Settings { load: Duration::from_secs(5), seed: 3, ..Settings::default() };
        let (outcome, reconciled) = run_through(&settings, Duration::from_secs(10)).await.expect("it runs");
        assert!(outcome.orders > 0, "{outcome}");
        assert!(outcome.unknown_to_customer < outcome.orders, "customers were told of orders: {outcome}");
        assert!(outcome.missing < outcome.orders, "messages reached the services: {outcome}");
        assert!((Duration::ZERO..=outcome.p99).contains(&outcome.p50) && outcome.p50 > Duration::ZERO, "{outcome}");
        // Whatever is wrong by less than the tolerance of each product, the recipe finds nothing.
        if outcome.drift_units <= 10 {
            assert!(reconciled.to_string().ends_with("in order"), "{outcome}{reconciled}");
        }
    }
}
