//! The same load, without faults, on three shops: without messages, with them, and as it is taught.

use std::sync::Arc;
use std::time::Duration;

use super::Settings;
use super::world::{Stock, World};
use crate::Failure;
use crate::load::client::InProcess;
use crate::load::stop::StopLoad;
use crate::load::zipf::Zipf;
use crate::load::{Load, Measured, measure};
use crate::shop::web;
use crate::steps::Steps;
use crate::taught;

/// The three take turns, so that a change of the machine's speed hits all of them.
const ROUNDS: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    WithoutMessages,
    Chain,
    Taught,
}

impl Kind {
    const ALL: [Self; 3] = [Self::WithoutMessages, Self::Chain, Self::Taught];

    fn text(self) -> &'static str {
        match self {
            Self::WithoutMessages => "without messages",
            Self::Chain => "the chain",
            Self::Taught => "as it is taught",
        }
    }
}

/// Measures each, and prints the ratios.
///
/// # Errors
/// Returns an error if a run itself failed.
pub async fn ratios(settings: &Settings) -> Result<(), Failure> {
    let settings = Settings { units: 1_000_000, ..settings.clone() };
    let mut medians = Vec::new();
    let mut measured: [Vec<f64>; 3] = Default::default();
    for round in 1..=ROUNDS {
        for (kind, speeds) in Kind::ALL.into_iter().zip(&mut measured) {
            let one = run_one(kind, &Settings { seed: settings.seed + round, ..settings.clone() }).await?;
            println!(
                "{}: {:.0} POST /orders a second, p50 {:.1} ms, p99 {:.1} ms",
                kind.text(),
                one.a_second(),
                one.p50.as_secs_f64() * 1_000.0,
                one.p99.as_secs_f64() * 1_000.0
            );
            speeds.push(one.a_second());
        }
    }
    for speeds in &mut measured {
        speeds.sort_by(f64::total_cmp);
        medians.push(speeds[speeds.len() / 2]);
    }
    println!("the chain to the same shop without messages: {:.2}", medians[1] / medians[0]);
    println!("the chain to the shop as it is taught: {:.2}", medians[1] / medians[2]);
    Ok(())
}

async fn run_one(kind: Kind, settings: &Settings) -> Result<Measured, Failure> {
    let stock = Stock {
        units: vec![settings.units; settings.products],
        coupons: 20_000,
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
        Kind::Taught => return taught::measure(settings, &load).await,
        Kind::WithoutMessages => World::without_messages(&stock).await?,
        Kind::Chain => World::new(&stock, Steps::default()).await?,
    };
    world.start().await?;
    let client = Arc::new(InProcess(web::router(world.shop.clone())));
    let measured = measure((settings.customers, settings.seed, settings.load), &load, client).await;
    world.end().await?;
    Ok(measured)
}
