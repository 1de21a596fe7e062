//! The pages' reads, and on request their times.

use std::time::{Duration, Instant};

use diesel_outbox::MessageId;

use crate::database::{Database, Kind};
use crate::fill::{LIVE, fill};
use crate::pages::{all, next_of, request};
use crate::reads;

/// Rows that one page reads at most: a calendar counts 10,000 in each of its 27 periods, which is the most that any page reads. The
/// tables have four times as many.
const ROWS_MAX: i64 = 275_000;

/// Rows of one search by a message id.
const SEARCHED_MAX: i64 = 100_000;

/// Steps of SQLite's virtual machine for each of these rows.
const STEPS_PER_ROW: i64 = 20;

/// Prints how long each page takes, at best of some requests.
const TIMES: &str = "OUTBOX_PAGE_TIMES";

const REQUESTS: usize = 5;

async fn reads_little(kind: Kind) {
    let Some(database) = Database::open(kind).await else { return };
    let began = Instant::now();
    fill(&database).await;
    print(&format!("{kind:?}: filled in {:.0?}", began.elapsed()));
    let relay = database.idle_relay().await;
    let paths = all(&database).await;
    if std::env::var_os(TIMES).is_some() {
        print_times(&database, &paths).await;
    }
    search_to_its_end(&database).await;
    let excess = match kind {
        Kind::Postgres | Kind::Mariadb => counted(&database, &paths).await,
        Kind::Sqlite => replayed(&database, &paths).await,
    };
    assert!(excess.is_empty(), "more than {ROWS_MAX} rows: {excess:#?}");
    relay.shutdown(Duration::from_secs(5)).await;
    // Hundreds of megabytes.
    database.run("DROP TABLE {m}; DROP TABLE {d}").await;
}

/// A message that nobody has is looked for page by page.
async fn search_to_its_end(database: &Database) {
    let app = database.dashboard().router();
    let (mut path, mut pages) = (Some(format!("/message?id={}", MessageId::new())), 0);
    while let Some(asked) = path {
        path = next_of(&app, &asked).await;
        pages += 1;
    }
    let is_indexed = database.kind == Kind::Mariadb;
    assert_eq!(pages, if is_indexed { 1 } else { LIVE / SEARCHED_MAX + 1 });
}

/// A dashboard for each page, whose sessions report at their end.
async fn counted(database: &Database, paths: &[String]) -> Vec<(String, i64)> {
    reads::start(database).await;
    // What was read before is not a page's.
    reads::wait_for_sessions(database).await;
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
    reads::stop(database).await;
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

#[allow(clippy::print_stdout, reason = "shown with --nocapture")]
fn print(text: &str) {
    println!("{text}");
}

async fn print_times(database: &Database, paths: &[String]) {
    let app = database.dashboard().router();
    for path in paths {
        let mut times = Vec::with_capacity(REQUESTS);
        for _ in 0..REQUESTS {
            times.push(request(&app, path).await);
        }
        let first = times[0];
        times.sort_unstable();
        print(&format!("{:?}: {path}: {:.1?}, the first {first:.1?}", database.kind, times[REQUESTS / 2]));
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
