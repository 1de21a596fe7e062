//! Starts everything, lets customers order, causes faults, waits for quiet, compares.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::client::Shops;
use super::faults::{Faults, Target};
use super::fleet::Fleet;
use super::servers::Servers;
use super::{Arguments, Places, part};
use crate::Failure;
use crate::domain::OrderState;
use crate::load::client::{Ask, Client};
use crate::load::stop::StopLoad;
use crate::load::told::Told;
use crate::load::zipf::Zipf;
use crate::load::{self, Load};
use crate::page::{self, Board};
use crate::reconcile::{Findings, Reconciler};
use crate::report::Report;
use crate::services::ledger::Ledgers;
use crate::services::mariadb::db::SqlLedgers;
use crate::shop::orders::Orders;
use crate::shop::postgres::db::SqlOrders;
use crate::shop::web;

const PRODUCTS: usize = 20;
const UNITS: i64 = 4_000;
const COUPONS: i64 = 20_000;
/// How long the parts may take to start.
const START_MAX: Duration = Duration::from_secs(180);
/// After the load everything must be quiet within this.
const QUIET_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(250);

/// The servers and the processes of a run.
pub(super) struct Started {
    pub(super) servers: Servers,
    pub(super) places: Places,
    pub(super) orders: Arc<SqlOrders>,
    pub(super) reconciler: Reconciler,
    pub(super) fleet: Fleet,
    pub(super) client: Arc<dyn Client>,
}

/// Starts everything. Without messages the shops are all.
pub(super) async fn start(has_messages: bool) -> Result<Started, Failure> {
    println!("starting PostgreSQL, MariaDB, Redis and Kafka");
    let servers = Servers::start().await?;
    let [postgres, mariadb, redis, kafka] = servers.addresses();
    let places = Places {
        postgres,
        mariadb,
        redis,
        kafka,
        coupons: COUPONS,
        payment_term: Duration::from_secs(5),
        sweep_after: Duration::from_secs(3),
        has_messages,
    };
    let orders = Arc::new(part::orders(&places, 4)?);
    migrate(&orders, &places).await?;
    let reconciler = part::reconciler(&places)?;
    std::fs::create_dir_all("target/order-chain")?;
    let mut fleet = Fleet::start(places.clone(), Path::new("target/order-chain/parts.log"))?;
    let client: Arc<dyn Client> = Arc::new(Shops::new(fleet.shops()));
    wait_for(async || client.send(&Ask::find("none")).await.is_ok()).await?;
    if has_messages {
        fleet.start_others()?;
    } else {
        reconciler.round().await?;
    }
    wait_for(async || reconciler.check().await.is_ok_and(|findings| findings.is_equal())).await?;
    Ok(Started { servers, places, orders, reconciler, fleet, client })
}

/// What customers do.
pub(super) fn load(places: &Places) -> Load {
    let zipf = Zipf::new(PRODUCTS, 1.1);
    Load { zipf, coupons: COUPONS, payment_term: places.payment_term, stop: StopLoad::default() }
}

pub(super) async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let Started { servers, places, orders, reconciler, mut fleet, client } = start(true).await?;
    for address in fleet.shops() {
        println!("a shop is at http://{address}, its outbox's dashboard at http://{address}{}", web::DASHBOARD);
    }
    let (told, load) = (Arc::new(Told::default()), load(&places));
    let board = Board::default();
    let (address, page) = page::serve(&board).await?;
    println!("{address} shows it while it runs");
    let of_board: Arc<dyn Orders> = Arc::clone(&orders) as Arc<_>;
    let shown = tokio::spawn(board.clone().run(of_board, reconciler.clone(), Arc::clone(&told)));
    let began = Instant::now();
    let customers = load::start(arguments.customers, arguments.seed, &load, &client, &told);
    let until = began + Duration::from_secs(arguments.seconds);
    let mut faults = Faults::default();
    if arguments.calm {
        sleep(until.saturating_duration_since(Instant::now())).await;
    } else {
        let mut target =
            Target { fleet: &mut fleet, servers: &servers, orders: &*orders, reconciler: &reconciler, board: &board };
        faults.run(&mut target, arguments.seed, until).await?;
    }
    load.stop.cancel();
    let took = began.elapsed();
    customers.join_all().await;
    let quiet = quiet(&mut fleet, &*orders, &reconciler).await?;
    let rows = orders.all().await?;
    shown.abort();
    page.abort();
    fleet.end().await?;
    let happened = (faults.settled, BTreeMap::new());
    let report = Report::new((arguments.seed, took), happened, &mut told.answers(), &rows, quiet);
    println!("{report}");
    Ok(report.is_right())
}

async fn migrate(orders: &SqlOrders, places: &Places) -> Result<(), Failure> {
    let prices: Vec<i64> = (1..).map(|number| 250 * number).take(PRODUCTS).collect();
    orders.migrate(&prices).await?;
    let mariadb = places.mariadb.clone();
    let units = vec![UNITS; PRODUCTS];
    tokio::task::spawn_blocking(move || SqlLedgers::open(&mariadb)?.migrate(&units, COUPONS)).await?
}

/// Waits for the parts to start.
async fn wait_for(is_so: impl AsyncFn() -> bool) -> Result<(), Failure> {
    let began = Instant::now();
    while !is_so().await {
        if began.elapsed() > START_MAX {
            return Err("the parts do not start: see target/order-chain/parts.log".into());
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Waits until nothing is on its way.
async fn quiet(
    fleet: &mut Fleet,
    orders: &dyn Orders,
    reconciler: &Reconciler,
) -> Result<(Duration, Findings), Failure> {
    let began = Instant::now();
    loop {
        fleet.revive()?;
        let findings = reconciler.check().await?;
        let is_open = orders.all().await?.iter().any(|row| row.state == OrderState::Created);
        if (findings.is_equal() && !is_open) || began.elapsed() > QUIET_MAX {
            return Ok((began.elapsed(), findings));
        }
        sleep(POLL).await;
    }
}
