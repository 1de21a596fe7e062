//! Starts everything, lets customers order, causes faults, waits for quiet, compares.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::client::Shops;
use super::faults::{Faults, Target};
use super::fleet::Fleet;
use super::part::Role;
use super::servers::{Server, Servers};
use super::{Arguments, Places, part};
use crate::Failure;
use crate::broker::Brokers;
use crate::load::client::{Ask, Client};
use crate::load::stop::StopLoad;
use crate::load::told::Told;
use crate::load::zipf::Zipf;
use crate::load::{self, Load};
use crate::page::{self, Board};
use crate::quiet::{self, Quiet};
use crate::reconcile::Reconciler;
use crate::report::{Happened, Report};
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
/// After the load customers must have ended within this. A customer gives a request up long before, and the report says so; this is for one
/// that does not.
const CUSTOMERS_MAX: Duration = Duration::from_secs(600);
/// After that everything must be quiet within this. A dense run leaves minutes of work: its services are down for half of it.
const QUIET_MAX: Duration = Duration::from_secs(600);
/// A look whether everything is quiet reads every order. A server that accepts connections and says nothing must not keep us longer than this.
const LOOK_MAX: Duration = Duration::from_secs(60);
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

/// What there is to sell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stock {
    pub(super) units: i64,
    pub(super) coupons: i64,
}

/// Starts the servers, and the shops with their relays; without messages they have none.
pub(super) async fn start(brokers: Brokers, stock: Stock, has_messages: bool) -> Result<Started, Failure> {
    println!("starting PostgreSQL, MariaDB, Redis and {brokers}");
    let servers = Servers::start(brokers).await?;
    let address = |server| servers.address(server);
    let places = Places {
        postgres: address(Server::Postgres),
        mariadb: address(Server::Mariadb),
        redis: address(Server::Redis),
        brokers,
        kafka: address(Server::Kafka),
        rocketmq: address(Server::NameServer),
        coupons: stock.coupons,
        payment_term: Duration::from_secs(5),
        sweep_after: Duration::from_secs(3),
        has_messages,
    };
    let orders = Arc::new(part::orders(&places, 4)?);
    migrate(&orders, &places, stock).await?;
    let reconciler = part::reconciler(&places)?;
    std::fs::create_dir_all("target/order-chain")?;
    let fleet = Fleet::start(places.clone(), Path::new("target/order-chain/parts.log"))?;
    let client: Arc<dyn Client> = Arc::new(Shops::new(fleet.shops()));
    wait_for(async || client.send(&Ask::find("none")).await.is_ok()).await?;
    reconciler.round().await?;
    Ok(Started { servers, places, orders, reconciler, fleet, client })
}

/// What customers do.
pub(super) fn load(places: &Places) -> Load {
    let zipf = Zipf::new(PRODUCTS, 1.1);
    Load { zipf, coupons: places.coupons, payment_term: places.payment_term, stop: StopLoad::default() }
}

pub(super) async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let stock = Stock { units: UNITS, coupons: COUPONS };
    let mut started = start(arguments.broker, stock, true).await?;
    started.fleet.start_consumers()?;
    started.fleet.start_part(Role::Reconciler)?;
    let Started { servers, places, orders, reconciler, fleet, client } = started;
    wait_for(async || reconciler.check().await.is_ok_and(|findings| findings.is_equal())).await?;
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
    let fleet = RefCell::new(fleet);
    let target = Target { fleet: &fleet, servers: &servers, orders: &*orders, reconciler: &reconciler, board: &board };
    let mut faults = Faults::default();
    let under_load = async {
        let lasts = arguments.lasts();
        if arguments.calm {
            sleep((began + lasts).saturating_duration_since(Instant::now())).await;
        } else {
            faults.run(&target, arguments.seed, (began, lasts), arguments.faults_per_minute).await?;
        }
        load.stop.cancel();
        let took = began.elapsed();
        quiet::join(customers, CUSTOMERS_MAX).await?;
        Ok::<_, Failure>(took)
    };
    let took = tokio::select! {
        took = under_load => took?,
        error = keep_alive(&fleet) => return Err(error),
    };
    let mut fleet = fleet.into_inner();
    let quiet = wait(&mut fleet, &*orders, &reconciler, &mut faults).await?;
    shown.abort();
    page.abort();
    fleet.end().await?;
    let (are_faults_asked, faults) = (!arguments.calm, faults.into_settled());
    let happened = Happened { are_faults_asked, faults, deaths: BTreeMap::new() };
    let report = Report::new((arguments.seed, took), happened, &mut told.answers(), quiet);
    println!("{report}");
    Ok(report.is_right())
}

/// Starts parts again that have ended by themselves, as one does whose server is away when it starts. Ends only if it cannot go on.
async fn keep_alive(fleet: &RefCell<Fleet>) -> Failure {
    loop {
        match fleet.borrow_mut().revive() {
            Ok(roles) if roles.is_empty() => {}
            Ok(roles) => tracing::info!(?roles, "parts have ended, and were started again"),
            Err(error) => return error,
        }
        sleep(POLL).await;
    }
}

async fn migrate(orders: &SqlOrders, places: &Places, stock: Stock) -> Result<(), Failure> {
    let prices: Vec<i64> = (1..).map(|number| 250 * number).take(PRODUCTS).collect();
    orders.migrate(&prices).await?;
    let mariadb = places.mariadb.clone();
    let units = vec![stock.units; PRODUCTS];
    tokio::task::spawn_blocking(move || SqlLedgers::open(&mariadb)?.migrate(&units, stock.coupons)).await?
}

/// Waits for the parts to start.
pub(super) async fn wait_for(is_so: impl AsyncFn() -> bool) -> Result<(), Failure> {
    let began = Instant::now();
    while !is_so().await {
        if began.elapsed() > START_MAX {
            return Err("the parts do not start: see target/order-chain/parts.log".into());
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Waits until nothing is on its way, or until the time is over. A server may have started again just now, and its old connections fail once.
pub(super) async fn wait(
    fleet: &mut Fleet,
    orders: &dyn Orders,
    reconciler: &Reconciler,
    faults: &mut Faults,
) -> Result<Quiet, Failure> {
    let began = Instant::now();
    loop {
        fleet.revive()?;
        let is_over = began.elapsed() > QUIET_MAX;
        let look = async { Ok::<_, Failure>((faults.look(orders, reconciler).await?, orders.all().await?)) };
        match timeout(LOOK_MAX, look).await.unwrap_or_else(|late| Err(late.into())) {
            Ok((findings, orders)) => {
                let quiet = Quiet { after: began.elapsed(), findings, orders };
                if is_over || quiet.is_quiet() {
                    return Ok(quiet);
                }
            }
            Err(error) if is_over => return Err(error),
            Err(error) => tracing::info!(%error, "a look whether everything is quiet did not end"),
        }
        sleep(POLL).await;
    }
}
