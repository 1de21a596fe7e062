//! The same load, without faults: the shop without messages, with its relay alone, and the whole chain. The recipe is measured embedded, with
//! the chain beside it.

use std::cell::RefCell;

use super::Arguments;
use super::cpu::{self, Used};
use super::driver::{Started, Stock, load, start, wait};
use super::faults::Faults;
use super::servers::Server;
use crate::Failure;
use crate::embedded::{Settings, ratios};
use crate::load::rounds::Rounds;
use crate::load::{Measured, measure};

/// No product is sold out: without messages no unit is ever given back. Hardly a coupon is in use.
const STOCK: Stock = Stock { units: 1_000_000, coupons: 200_000 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    WithoutMessages,
    WithRelay,
    Chain,
}

impl Kind {
    const ALL: [Self; 3] = [Self::WithoutMessages, Self::WithRelay, Self::Chain];

    fn text(self) -> &'static str {
        match self {
            Self::WithoutMessages => "the shop without messages",
            Self::WithRelay => "the shop with its relay",
            Self::Chain => "the chain",
        }
    }
}

/// Measures embedded and on real servers, and prints the ratios.
pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    println!("embedded, {} customers", arguments.customers);
    let (seed, customers, load) = (arguments.seed, arguments.customers, arguments.lasts());
    ratios(&Settings { seed, customers, load, ..Settings::default() }, arguments.rounds).await?;
    println!("\non PostgreSQL, MariaDB, Redis and {}, {} customers", arguments.broker, arguments.customers);
    let mut speeds = Rounds::of(&Kind::ALL.map(Kind::text));
    for round in 0..arguments.rounds {
        for shop in speeds.order(round) {
            let kind = Kind::ALL[shop];
            let (measured, used) = run_one(arguments, kind, arguments.seed + u64::from(round)).await?;
            println!("{}: {measured}", kind.text());
            println!("  processors in use: {}", in_use(&used, measured.took.as_secs_f64()));
            speeds.add(shop, measured.a_second());
        }
    }
    let [without, relay, chain] = [0, 1, 2];
    println!("orders a second:\n  {}\n  {}", speeds.ratio(relay, without), speeds.ratio(chain, without));
    Ok(())
}

/// On servers of its own: what one run leaves does not slow the other.
async fn run_one(arguments: &Arguments, kind: Kind, seed: u64) -> Result<(Measured, Used), Failure> {
    let started = start(arguments.broker, STOCK, kind != Kind::WithoutMessages).await?;
    let Started { servers, places, orders, reconciler, mut fleet, client } = started;
    if kind == Kind::Chain {
        fleet.start_consumers()?;
    }
    let mut roots = fleet.ids();
    roots.extend(servers.all().into_iter().filter_map(|server| Some((name(server), servers.pid(server)?))));
    let edges = RefCell::new(Vec::new());
    let look = || {
        let mut used = cpu::used(&roots);
        used.insert("customers".to_owned(), cpu::used_here());
        edges.borrow_mut().push(used);
    };
    let measured = measure((arguments.customers, seed, arguments.lasts()), &load(&places), client, look).await;
    if kind == Kind::Chain {
        let quiet = wait(&mut fleet, &*orders, &reconciler, &mut Faults::default()).await?;
        if !quiet.findings.wrong.is_empty() {
            return Err(format!("something is wrong after the load:\n{}", quiet.findings).into());
        }
        let what = if quiet.is_quiet() { "every service knew all" } else { "a service still lacks messages" };
        println!("{what} {:.1} s after the last payment", quiet.after.as_secs_f64());
    }
    fleet.end().await?;
    drop(servers);
    let edges = edges.into_inner();
    let (Some(first), Some(last)) = (edges.first(), edges.last()) else { return Err("it was not measured".into()) };
    let used = last.iter().map(|(name, used)| (name.clone(), used - first.get(name).copied().unwrap_or_default()));
    Ok((measured, used.collect()))
}

fn name(server: Server) -> String {
    format!("{server:?}")
}

/// Processors, by who used them, the most first.
fn in_use(used: &Used, seconds: f64) -> String {
    let mut shares: Vec<(&str, f64)> = used.iter().map(|(name, used)| (name.as_str(), used / seconds)).collect();
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    let shares: Vec<String> = shares.iter().map(|(name, share)| format!("{name} {share:.2}")).collect();
    format!("{sum:.2}: {}", shares.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_measured_time() {
        let used = Used::from([("Kafka".to_owned(), 5.0), ("shops".to_owned(), 10.0)]);
        assert_eq!(in_use(&used, 10.0), "1.50: shops 1.00, Kafka 0.50");
    }
}
