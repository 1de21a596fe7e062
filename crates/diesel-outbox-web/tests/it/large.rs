//! The pages' reads, and on request their times.

use std::time::Duration;

use crate::database::{Database, Kind};
use crate::fill::fill;
use crate::pages::{all, request};
use crate::reads;

/// Rows that one page reads at most: the blocked keys of a page, which read 1,000 on either side of 50 messages, and the counts around
/// them. The tables have ten times as many.
const ROWS_MAX: i64 = 150_000;

/// Steps of SQLite's virtual machine for each of these rows.
const STEPS_PER_ROW: i64 = 20;

/// Prints how long each page takes, at best of some requests.
const TIMES: &str = "OUTBOX_PAGE_TIMES";

const REQUESTS: usize = 5;

async fn reads_little(kind: Kind) {
    let Some(database) = Database::open(kind).await else { return };
    fill(&database).await;
    let relay = database.idle_relay().await;
    let paths = all(&database).await;
    if std::env::var_os(TIMES).is_some() {
        print_times(&database, &paths).await;
    }
    let excess = match kind {
        Kind::Postgres | Kind::Mariadb => counted(&database, &paths).await,
        Kind::Sqlite => replayed(&database, &paths).await,
    };
    assert!(excess.is_empty(), "more than {ROWS_MAX} rows: {excess:#?}");
    relay.shutdown(Duration::from_secs(5)).await;
}

/// A dashboard for each page, whose sessions report at their end.
async fn counted(database: &Database, paths: &[String]) -> Vec<(String, i64)> {
    reads::start(database).await;
    let mut excess = Vec::new();
    for path in paths {
        let before = reads::so_far(database).await;
        let app = database.dashboard().router();
        request(&app, path).await;
        drop(app);
        reads::wait_for_sessions(database).await;
        let rows = reads::so_far(database).await - before;
        if rows > ROWS_MAX {
            excess.push((path.clone(), rows));
        }
    }
    excess
}

async fn replayed(database: &Database, paths: &[String]) -> Vec<(String, i64)> {
    let (dashboard, log) = database.logged_dashboard();
    let app = dashboard.router();
    let mut excess = Vec::new();
    for path in paths {
        log.take();
        request(&app, path).await;
        let steps = reads::steps(database, &log.take());
        if steps > ROWS_MAX * STEPS_PER_ROW {
            excess.push((path.clone(), steps));
        }
    }
    excess
}

#[allow(clippy::print_stdout, reason = "somebody has asked for it")]
async fn print_times(database: &Database, paths: &[String]) {
    let app = database.dashboard().router();
    for path in paths {
        let mut times = Vec::with_capacity(REQUESTS);
        for _ in 0..REQUESTS {
            times.push(request(&app, path).await);
        }
        let first = times[0];
        times.sort_unstable();
        println!("{:?}: {path}: {:.1?}, the first {first:.1?}", database.kind, times[REQUESTS / 2]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_reads_little_of_large_tables_on_postgres() {
    reads_little(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_reads_little_of_large_tables_on_mariadb() {
    reads_little(Kind::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_reads_little_of_large_tables_on_sqlite() {
    reads_little(Kind::Sqlite).await;
}
