//! Stores that open their own connections: no more than the relay makes calls at once. A refused login is reported at start.

use std::time::Duration;

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel::sql_types::BigInt;
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool};
use diesel_outbox::relay::{Relay, StartError};
use diesel_outbox::store::{MysqlStore, OutboxStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Outbox, OutboxBackend};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres};
use super::logged::Log;
use super::{order, outbox};

const DEADLINE: Duration = Duration::from_secs(60);
/// The connections of a relay with one transport.
const CALLS: i64 = 6;
/// Enough for every worker.
const MESSAGES: i64 = 3_000;

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn count<C>(conn: &mut C, sql: &str) -> i64
where
    C: diesel::connection::LoadConnection,
    diesel::query_builder::SqlQuery: diesel::query_dsl::LoadQuery<'static, C, Count>,
{
    use diesel::query_dsl::LoadQuery as _;
    let mut rows = diesel::sql_query(sql.to_owned()).internal_load(conn).expect("count");
    rows.next().expect("a row").expect("a row").count
}

async fn start(outbox: &Outbox, store: impl OutboxStore, broker: &MemoryTransport) -> Relay {
    outbox.relay().store(store).transport(broker.clone()).start().await.expect("start")
}

fn burst<C>(outbox: &Outbox, conn: &mut C)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    for each in 0..MESSAGES / 100 {
        outbox.enqueue_all(conn, (0..100).map(|of| order(each * 100 + of))).expect("enqueue");
    }
}

async fn all_arrive(broker: &MemoryTransport, relay: Relay, check: impl FnOnce()) {
    let count = usize::try_from(MESSAGES).expect("few");
    broker.wait_for_delivered(count, DEADLINE).await.expect("all arrive");
    check();
    assert!(relay.shutdown(DEADLINE).await.is_clean());
    assert_eq!(broker.delivered().len(), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_on_postgres_opens_as_many_connections_as_it_has_calls() {
    let Some(url) = fresh_postgres() else { return };
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let own =
        "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut conn = PgConnection::establish(&url).expect("connect");
    let relay = start(&outbox, PostgresStore::connect(&*url).expect("an address"), &broker).await;
    burst(&outbox, &mut conn);
    all_arrive(&broker, relay, || {
        let open = count(&mut conn, own);
        assert!((1..=CALLS).contains(&open), "{open} connections");
    })
    .await;
    assert_eq!(count(&mut conn, "SELECT count(*) AS count FROM outbox_messages"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_on_mariadb_opens_as_many_connections_as_it_has_calls() {
    let Some(url) = fresh_mariadb() else { return };
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let own =
        "SELECT count(*) AS count FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    let relay = start(&outbox, MysqlStore::connect(&*url).expect("an address"), &broker).await;
    burst(&outbox, &mut conn);
    all_arrive(&broker, relay, || {
        let open = count(&mut conn, own);
        assert!((1..=CALLS).contains(&open), "{open} connections");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_on_sqlite_needs_no_pool() {
    let (file, outbox, broker) = (SqliteFile::fresh(), outbox(), MemoryTransport::new());
    let relay = start(&outbox, SqliteStore::connect(file.url()).expect("a file"), &broker).await;
    burst(&outbox, &mut file.connect());
    all_arrive(&broker, relay, || {}).await;
}

#[test]
fn a_blocking_relay_takes_such_a_store() {
    let (file, outbox, broker) = (SqliteFile::fresh(), outbox(), MemoryTransport::new());
    let store = SqliteStore::connect(file.url()).expect("a file");
    let relay = outbox.relay().store(store).transport(broker.clone()).start_blocking().expect("start");
    outbox.enqueue(&mut file.connect(), &order(1)).expect("enqueue");
    broker.wait_for_delivered_blocking(1, DEADLINE).expect("it arrives");
    assert!(relay.shutdown(DEADLINE).expect("it runs").is_clean());
}

/// The URL with another user, password and database.
fn other(url: &str, login: &str, database: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let server = rest.rsplit_once('@').map_or(rest, |(_, server)| server);
    let (host, _) = server.split_once('/').expect("a database");
    format!("{scheme}://{login}@{host}/{database}")
}

/// The start fails at once. The error says what to correct and does not contain the password. Nothing is logged.
async fn is_refused(store: impl OutboxStore, says: &[&str]) {
    let (log, _logging) = Log::begin();
    let began = std::time::Instant::now();
    let error = outbox().relay().store(store).transport(MemoryTransport::new()).start().await.expect_err("refused");
    assert!(matches!(error, StartError::Refused(_)), "{error:?}");
    let text = error.to_string();
    for part in says.iter().chain(&["correct the user, the password and the name of the database"]) {
        assert!(text.contains(part), "{part:?}: {text}");
    }
    assert!(!format!("{text} {error:?}").contains("swordfish"), "{text} {error:?}");
    assert!(began.elapsed() < DEADLINE / 2, "{:?}", began.elapsed());
    assert_eq!(log.times("WARN"), 0, "{}", log.text());
}

#[tokio::test]
async fn a_wrong_login_on_postgres_is_named_at_start() {
    let Some(url) = fresh_postgres() else { return };
    let absent = url.rsplit_once('/').expect("a database").0.to_owned() + "/no_such_shop";
    let store = |url: &str| PostgresStore::connect(url).expect("an address");
    is_refused(store(&absent), &["\"no_such_shop\"", "does not exist", "127.0.0.1"]).await;
    let stranger = other(&url, "stranger:swordfish", "no_such_shop");
    is_refused(store(&stranger), &["user \"stranger\"", "127.0.0.1"]).await;
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(&stranger);
    let pool = deadpool::Pool::builder(manager).max_size(8).build().expect("a pool");
    is_refused(PostgresStore::new(pool), &["\"stranger\""]).await;
    let pool = R2d2Pool::builder().max_size(8).min_idle(Some(0));
    let pool = pool.build_unchecked(ConnectionManager::<PgConnection>::new(&stranger));
    is_refused(PostgresStore::new(pool).statement_timeout(Duration::from_secs(2)), &["\"stranger\""]).await;
}

#[tokio::test]
async fn a_wrong_login_on_mariadb_is_named_at_start() {
    let Some(url) = fresh_mariadb() else { return };
    let store = |url: &str| MysqlStore::connect(url).expect("an address");
    let absent = url.rsplit_once('/').expect("a database").0.to_owned() + "/no_such_shop";
    is_refused(store(&absent), &["no_such_shop", "127.0.0.1"]).await;
    is_refused(store(&other(&url, "stranger:swordfish", "shop")), &["stranger", "127.0.0.1"]).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named_at_start() {
    let file = SqliteFile::fresh();
    let store = SqliteStore::connect(file.url() + "/no/such/shop.db").expect("an address");
    is_refused(store, &["no/such/shop.db"]).await;
}

#[test]
fn a_wrong_address_is_refused_before_anything_is_connected() {
    let tls =
        PostgresStore::connect("postgres://shop:swordfish@db/shop?sslmode=require").expect_err("no TLS").to_string();
    assert!(tls.contains("without TLS") && tls.contains("PostgresStore::new") && !tls.contains("swordfish"), "{tls}");
    let other = MysqlStore::connect("postgres://shop:swordfish@db/shop").expect_err("another server").to_string();
    assert!(other.contains("mysql://") && !other.contains("swordfish"), "{other}");
    let memory = SqliteStore::connect(":memory:").expect_err("one connection's own").to_string();
    assert!(memory.contains("give the path of a file"), "{memory}");
}
