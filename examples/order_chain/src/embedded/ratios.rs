//! The same load, without faults, on four shops: without messages, with its relay alone, with the whole chain, and as it is taught.

use std::sync::Arc;
use std::time::Duration;

use super::Settings;
use super::run::wait;
use super::world::{Stock, World};
use crate::Failure;
use crate::load::client::InProcess;
use crate::load::rounds::Rounds;
use crate::load::stop::StopLoad;
use crate::load::zipf::Zipf;
use crate::load::{Load, Measured, measure};
use crate::shop::web;
use crate::steps::Steps;
use crate::taught::{self, SETTLED_MAX};

/// No product is sold out, and hardly a coupon is in use: the recipe refuses neither in time, so a refusal would slow the chain alone.
const UNITS: i64 = 1_000_000;
const COUPONS: i64 = 200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    WithoutMessages,
    WithRelay,
    Chain,
    Taught,
}

impl Kind {
    const ALL: [Self; 4] = [Self::WithoutMessages, Self::WithRelay, Self::Chain, Self::Taught];

    fn text(self) -> &'static str {
        match self {
            Self::WithoutMessages => "the shop without messages",
            Self::WithRelay => "the shop with its relay",
            Self::Chain => "the chain",
            Self::Taught => "the chain as it is taught",
        }
    }
}

/// What a measurement came to.
struct One {
    measured: Measured,
    /// Orders a second until every service knew of all of them; `None` if there is no service.
    to_the_end: Option<f64>,
}

/// Measures each so many times, and prints the ratios.
///
/// # Errors
/// Returns an error if a run itself failed.
pub async fn ratios(settings: &Settings, rounds: u32) -> Result<(), Failure> {
    let settings = Settings { units: UNITS, ..settings.clone() };
    let names = Kind::ALL.map(Kind::text);
    let (mut speeds, mut to_the_end) = (Rounds::of(&names), Rounds::of(&names));
    for round in 0..rounds {
        for shop in speeds.order(round) {
            let settings = Settings { seed: settings.seed + u64::from(round), ..settings.clone() };
            let one = run_one(Kind::ALL[shop], &settings).await?;
            print!("{}: {}", names[shop], one.measured);
            speeds.add(shop, one.measured.a_second());
            if let Some(speed) = one.to_the_end {
                print!("; {speed:.0} a second until every service knew all");
                to_the_end.add(shop, speed);
            }
            println!();
        }
    }
    let [without, relay, chain, taught] = [0, 1, 2, 3];
    println!("orders a second, while there was load:");
    for (shop, to) in [(relay, without), (chain, without), (chain, taught)] {
        println!("  {}", speeds.ratio(shop, to));
    }
    println!("orders a second, until every service knew all:\n  {}", to_the_end.ratio(chain, taught));
    Ok(())
}

async fn run_one(kind: Kind, settings: &Settings) -> Result<One, Failure> {
    let stock = Stock {
        units: vec![settings.units; settings.products],
        coupons: COUPONS,
        payment_term: Duration::from_secs(2),
        sweep_after: Duration::from_secs(1),
    };
    let load = Load {
        zipf: Zipf::new(settings.products, 1.1),
        coupons: stock.coupons,
        payment_term: stock.payment_term,
        stop: StopLoad::default(),
    };
    let mut world = match kind {
        Kind::Taught => {
            let (measured, to_the_end) = taught::measure(settings, &load).await?;
            return Ok(One { measured, to_the_end: Some(to_the_end) });
        }
        Kind::WithoutMessages => World::without_messages(&stock).await?,
        Kind::WithRelay | Kind::Chain => World::new(&stock, Steps::default()).await?,
    };
    if kind != Kind::WithoutMessages {
        world.start_relay().await?;
    }
    if kind == Kind::Chain {
        world.start_consumers()?;
    }
    let client = Arc::new(InProcess(web::router(world.shop.clone())));
    let measured = measure((settings.customers, settings.seed, settings.load), &load, client, || {}).await;
    let mut to_the_end = None;
    if kind == Kind::Chain {
        let quiet = wait(&world, SETTLED_MAX).await?;
        if !quiet.findings.wrong.is_empty() {
            return Err(format!("something is wrong after the load:\n{}", quiet.findings).into());
        }
        if !quiet.is_quiet() {
            println!("the chain: {SETTLED_MAX:?} after the load a service lacks messages; this counts as their end");
        }
        to_the_end = Some(measured.a_second_until_now());
    }
    world.end().await?;
    Ok(One { measured, to_the_end })
}
