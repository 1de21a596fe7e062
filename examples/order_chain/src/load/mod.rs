//! Customers, as many as there are connections.

pub mod client;
mod customer;
pub mod rounds;
pub mod stop;
pub mod told;
pub mod zipf;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::client::Client;
use self::customer::Customer;
use self::stop::StopLoad;
use self::told::{Answers, Told};
use self::zipf::Zipf;

/// What customers do.
#[derive(Debug, Clone)]
pub struct Load {
    /// Which products they want.
    pub zipf: Zipf,
    /// Coupons from 1 to this.
    pub coupons: i64,
    /// When the shop closes an unpaid order.
    pub payment_term: Duration,
    /// Tells them to stop.
    pub stop: StopLoad,
}

/// Starts customers. They end after `load.stop`, when each of their requests has an answer or was given up.
pub fn start(customers: i64, seed: u64, load: &Load, client: &Arc<dyn Client>, told: &Arc<Told>) -> JoinSet<()> {
    let mut rng = Rng::with_seed(seed);
    let mut tasks = JoinSet::new();
    for id in 1..=customers {
        let (client, told) = (Arc::clone(client), Arc::clone(told));
        tasks.spawn(Customer { id, client, told, load: load.clone(), rng: rng.fork() }.shop());
    }
    tasks
}

/// What a load without faults came to.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Orders that customers were told of in the measured time, each once. Refused requests are no orders.
    pub orders: usize,
    /// The measured time.
    pub took: Duration,
    /// The latency that half of the orders are below: from an order's first request to the answer that told of it.
    pub p50: Duration,
    /// The latency that one in a hundred is above.
    pub p99: Duration,
    /// Orders that customers were told of at any time.
    pub orders_in_all: usize,
    /// When the load began.
    pub began: Instant,
}

impl Measured {
    /// Orders a second, while there was load.
    pub fn a_second(&self) -> f64 {
        self.orders as f64 / self.took.as_secs_f64()
    }

    /// Orders a second until every service knew of all of them, if that is now.
    pub fn a_second_until_now(&self) -> f64 {
        self.orders_in_all as f64 / self.began.elapsed().as_secs_f64()
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [self.p50, self.p99].map(|latency| latency.as_secs_f64() * 1_000.0);
        write!(f, "{:.0} orders a second, p50 {p50:.1} ms, p99 {p99:.1} ms", self.a_second())
    }
}

/// The part of the measured time that goes before it: connections are opened, and clients learn where partitions are.
const WARM_UP: u32 = 4;

/// Lets customers order for a while, and counts the orders. Calls `at_edge` when the measured time begins and when it ends.
pub async fn measure(
    (customers, seed, lasts): (i64, u64, Duration),
    load: &Load,
    client: Arc<dyn Client>,
    mut at_edge: impl FnMut(),
) -> Measured {
    let told = Arc::new(Told::default());
    let began = Instant::now();
    let running = start(customers, seed, load, &client, &told);
    sleep(lasts / WARM_UP).await;
    told.answers().latencies.clear();
    at_edge();
    let measures = Instant::now();
    sleep(lasts).await;
    let took = measures.elapsed();
    let latencies = std::mem::take(&mut told.answers().latencies);
    at_edge();
    load.stop.cancel();
    running.join_all().await;
    let orders = latencies.len();
    let mut of_time = Answers { latencies, ..Answers::default() };
    let (p50, p99) = (of_time.latency(50), of_time.latency(99));
    let orders_in_all = told.answers().placed.len();
    Measured { orders, took, p50, p99, orders_in_all, began }
}
