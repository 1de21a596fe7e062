//! Customers, as many as there are connections.

pub mod client;
mod customer;
pub mod stop;
pub mod told;
pub mod zipf;

use std::sync::Arc;
use std::time::Duration;

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
