//! Customers, as many as there are connections.

pub mod client;
mod customer;
pub mod stop;
pub mod told;
pub mod zipf;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinSet;

use self::client::Client;
use self::customer::Customer;
use self::stop::StopLoad;
use self::told::Told;
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

/// Starts customers. They end after `load.stop`, when each of their requests has an answer.
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
    /// Answers to POST /orders.
    pub answers: u64,
    /// How long the load took.
    pub took: Duration,
    /// The latency of POST /orders that most are below.
    pub p50: Duration,
    /// The latency that one in a hundred is above.
    pub p99: Duration,
}

impl Measured {
    /// Answers to POST /orders.
    pub fn a_second(&self) -> f64 {
        self.answers as f64 / self.took.as_secs_f64()
    }
}

/// Lets customers order for a while, and counts the answers.
pub async fn measure((customers, seed, lasts): (i64, u64, Duration), load: &Load, client: Arc<dyn Client>) -> Measured {
    let told = Arc::new(Told::default());
    let began = Instant::now();
    let running = start(customers, seed, load, &client, &told);
    tokio::time::sleep(lasts).await;
    let took = began.elapsed();
    let answers = told.answers().statuses.values().sum();
    load.stop.cancel();
    running.join_all().await;
    let mut told = told.answers();
    Measured { answers, took, p50: told.latency(50), p99: told.latency(99) }
}
