//! Load, faults, quiet, report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Deaths;
use super::faults::Faults;
use super::world::{Stock, World};
use crate::Failure;
use crate::load::client::{Client, InProcess};
use crate::load::stop::StopLoad;
use crate::load::told::Told;
use crate::load::zipf::Zipf;
use crate::load::{self, Load};
use crate::page::{self, Board};
use crate::quiet::{self, Quiet};
use crate::report::{Happened, Outcome, Report};
use crate::shop::web;

/// After the load customers must have ended within this. A customer gives a request up long before, and the report says so; this is for one
/// that does not.
const CUSTOMERS_MAX: Duration = Duration::from_secs(600);
/// After that everything must be quiet within this.
const QUIET_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(250);

/// What to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of load, and of faults.
    pub seed: u64,
    /// How long there is load.
    pub load: Duration,
    /// Customers at a time.
    pub customers: i64,
    /// Products, of which the first is the most wanted.
    pub products: usize,
    /// Units of each product.
    pub units: i64,
    /// One of so many requests dies at each step.
    pub one_of_dies: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, load: Duration::from_secs(40), customers: 8, products: 8, units: 600, one_of_dies: 150 }
    }
}

/// When faults happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Each after the one before has settled.
    OneByOne,
    /// At their times.
    ByTheClock,
}

/// Runs the chain, and prints what came of it. Returns whether every place agrees in the end.
///
/// # Errors
/// Returns an error if the run itself failed.
pub async fn run(settings: &Settings) -> Result<bool, Failure> {
    let (report, _) = run_at(settings, Pace::OneByOne).await?;
    println!("{report}");
    Ok(report.is_right())
}

pub(super) async fn run_at(settings: &Settings, pace: Pace) -> Result<(Report, Outcome), Failure> {
    let deaths = Deaths::new(settings.seed);
    let stock = Stock {
        units: vec![settings.units; settings.products],
        coupons: 2_000,
        payment_term: Duration::from_secs(2),
        sweep_after: Duration::from_secs(1),
    };
    let mut world = World::new(&stock, deaths.steps()).await?;
    world.start().await?;
    let (told, stop) = (Arc::new(Told::default()), StopLoad::default());
    let load = Load {
        zipf: Zipf::new(settings.products, 1.1),
        coupons: stock.coupons,
        payment_term: stock.payment_term,
        stop: stop.clone(),
    };
    let client: Arc<dyn Client> = Arc::new(InProcess(web::router(world.shop.clone())));
    let board = Board::default();
    let (address, page) = page::serve(&board).await?;
    println!("{address} shows it while it runs");
    let shown = board.clone().run(Arc::clone(&world.orders), world.reconciler.clone(), Arc::clone(&told));
    let shown = tokio::spawn(shown);
    let began = Instant::now();
    let customers = load::start(settings.customers, settings.seed, &load, &client, &told);
    deaths.begin(settings.one_of_dies);
    let mut faults = Faults::default();
    match pace {
        Pace::OneByOne => faults.run(&mut world, &board, settings.seed, began + settings.load).await?,
        Pace::ByTheClock => faults.run_plan(&mut world, &board, settings.seed, settings.load).await?,
    }
    stop.cancel();
    let took = began.elapsed();
    quiet::join(customers, CUSTOMERS_MAX).await?;
    deaths.begin(0);
    let quiet = wait(&world, QUIET_MAX).await?;
    shown.abort();
    page.abort();
    world.end().await?;
    let happened = Happened { are_faults_asked: true, faults: faults.settled, deaths: deaths.counts() };
    let mut answers = told.answers();
    let outcome = Outcome::of_chain(&quiet.findings, &quiet.orders, &mut answers);
    Ok((Report::new((settings.seed, took), happened, &mut answers, quiet), outcome))
}

/// Waits until nothing is on its way, or until the time is over. A look reads every order, so with many of them looks become rarer.
pub(super) async fn wait(world: &World, within: Duration) -> Result<Quiet, Failure> {
    let began = Instant::now();
    loop {
        let looks = Instant::now();
        let findings = world.reconciler.check().await?;
        let orders = world.orders.all().await?;
        let quiet = Quiet { after: began.elapsed(), findings, orders };
        if quiet.is_quiet() || quiet.after > within {
            return Ok(quiet);
        }
        sleep(POLL.max(3 * looks.elapsed())).await;
    }
}
