//! The same load and the same faults as in `embedded`, and what is wrong afterwards.

mod count;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_async::SimpleAsyncConnection;
use diesel_async::pooled_connection::deadpool::Pool;
use fastrand::Rng;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::cache::TaughtCache;
use super::shop::{TaughtShop, router};
use super::tables::{SERVICE, SHOP};
use super::{consumers, jobs};
use crate::Failure;
use crate::domain::ORDERS;
use crate::embedded::{Deaths, Settings};
use crate::load::client::{Client, InProcess};
use crate::load::stop::StopLoad;
use crate::load::told::Told;
use crate::load::zipf::Zipf;
use crate::load::{self, Load, Measured};
use crate::services::ledger::Service;
use crate::shop::sqlite::{self, Db};

const COUPONS: i64 = 2_000;
const PAYMENT_TERM: Duration = Duration::from_secs(2);
/// How long after the load everything must be sent: as long as the embedded run waits for quiet.
const SENT_MAX: Duration = Duration::from_secs(60);
/// For the services to process what was sent: the recipe has no end that can be recognised.
const REST: Duration = Duration::from_secs(15);

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
    let deaths = Deaths::new(settings.seed);
    let (mut world, client) = World::start_all(settings, &deaths).await?;
    let (told, stop) = (Arc::new(Told::default()), StopLoad::default());
    let zipf = Zipf::new(settings.products, 1.1);
    let load = Load { zipf, coupons: COUPONS, payment_term: PAYMENT_TERM, stop: stop.clone() };
    let began = Instant::now();
    let customers = load::start(settings.customers, settings.seed, &load, &client, &told);
    deaths.begin(settings.one_of_dies);
    world.faults(settings.seed, began + settings.load).await?;
    stop.cancel();
    let took = began.elapsed();
    customers.join_all().await;
    deaths.begin(0);
    // What is only late is not to be counted as missing.
    let rests = Instant::now();
    while rests.elapsed() < SENT_MAX && !jobs::all_sent(&world.shop).await? {
        sleep(Duration::from_millis(250)).await;
    }
    sleep(REST).await;
    let mut answers = std::mem::take(&mut *told.answers());
    let counted = count::count(&world, settings, &mut answers).await?;
    println!("\nas it is taught, seed {}, {:.0} s of load\n{counted}", settings.seed, took.as_secs_f64());
    world.tasks.values().for_each(JoinHandle::abort);
    Ok(())
}

/// Runs the load on the chain as it is taught, without faults.
pub(crate) async fn measure(settings: &Settings, load: &Load) -> Result<Measured, Failure> {
    let (mut world, client) = World::start_all(settings, &Deaths::new(settings.seed)).await?;
    let measured = load::measure((settings.customers, settings.seed, settings.load), load, client).await;
    // A client that leaves its group after the broker has gone blocks a thread of the runtime, and the next measurement with it.
    for (_, task) in std::mem::take(&mut world.tasks) {
        task.abort();
        drop(task.await);
    }
    Ok(measured)
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
            let pool = sqlite::pool(&folder.path().join(name).display().to_string(), 8)?;
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

    /// Those of the embedded run.
    async fn faults(&mut self, seed: u64, until: Instant) -> Result<(), Failure> {
        let mut rng = Rng::with_seed(seed);
        while Instant::now() < until {
            sleep(Duration::from_secs(3)).await;
            let names = self.names();
            match rng.usize(..names.len() + 3) {
                0 => self.cache.flush(),
                1 => {
                    self.cache.set_away(true);
                    sleep(Duration::from_millis(700)).await;
                    self.cache.set_away(false);
                }
                2 => {
                    self.kafka.broker_down(1)?;
                    sleep(Duration::from_secs(1)).await;
                    self.kafka.broker_up(1)?;
                }
                at => {
                    if let Some(task) = self.tasks.remove(names[at - 3]) {
                        task.abort();
                    }
                    self.start(names[at - 3])?;
                }
            }
        }
        Ok(())
    }
}
