//! pgbouncer in transaction mode between us and PostgreSQL: what docs/pgbouncer.md says that works.
//!
//! Its sessions are few and given out in turn, so that whatever depends on one of them fails soon.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use diesel::connection::{CacheSize, Connection as _, SimpleConnection as _};
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel::sql_types::Text;
use diesel::{ConnectionError, ConnectionResult, ExpressionMethods as _, PgConnection, QueryResult, QueryableByName};
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::admin::DeadLetterFilter;
use diesel_outbox::relay::StartError;
use diesel_outbox::store::{ConnectionPool, PostgresStore, SchemaProblem};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Message, MessageId, Outbox, Topic};
use futures_util::future::{Either, select};
use xtask::servers::pgbouncer::{Options, programs, version};
use xtask::servers::{Pgbouncer, ServerKind};
use xtask::test_servers;

use super::databases::fresh_postgres;

const DEADLINE: Duration = Duration::from_secs(60);

const CLIENTS: i64 = 6;
const EACH: i64 = 50;
/// Of each path.
const ALL: usize = 300;

/// Fewer than the clients of a test.
const SESSIONS: usize = 3;

/// A pgbouncer, and a database behind it.
struct ConnectionPath {
    pooler: Pgbouncer,
    through: String,
    direct: String,
    /// Whether it follows prepared statements from one session to another.
    follows: bool,
}

/// A way through each pgbouncer of this machine, and through one that can follow prepared statements both ways.
fn paths() -> Vec<ConnectionPath> {
    let (Some(server), Some(programs)) =
        (test_servers::shared_or_skip(ServerKind::Postgres), test_servers::own_or_skip(programs()))
    else {
        return Vec::new();
    };
    let setting = |name: &str, value: String| (name.to_owned(), value);
    let mut paths = Vec::new();
    for program in programs {
        let can_follow = version(&program).expect("a version") >= (1, 21);
        for follows in if can_follow { &[false, true][..] } else { &[false] }.iter().copied() {
            let mut settings =
                vec![setting("default_pool_size", SESSIONS.to_string()), setting("server_round_robin", "1".to_owned())];
            if can_follow {
                settings.push(setting("max_prepared_statements", (100 * i32::from(follows)).to_string()));
            }
            let options = Options { program: program.clone(), pool_mode: "transaction", settings };
            let pooler = Pgbouncer::start(&server, &options).expect("start pgbouncer");
            let direct = fresh_postgres().expect("it was there");
            let (_, database) = direct.rsplit_once('/').expect("a url with a database");
            paths.push(ConnectionPath { through: pooler.url(database), pooler, direct, follows });
        }
    }
    assert!(paths.iter().any(|path| !path.follows));
    paths
}

#[derive(QueryableByName)]
struct Word {
    #[diesel(sql_type = Text)]
    word: String,
}

fn words(conn: &mut PgConnection, sql: &str) -> Vec<String> {
    let query = diesel::sql_query(format!("SELECT t::text AS word FROM ({sql}) AS q(t)"));
    let rows: QueryResult<Vec<Word>> = diesel::RunQueryDsl::load(query, conn);
    rows.unwrap_or_else(|error| panic!("{sql}: {error}")).into_iter().map(|row| row.word).collect()
}

impl ConnectionPath {
    /// What is in the table, read past pgbouncer.
    fn messages(&self) -> usize {
        let mut conn = PgConnection::establish(&self.direct).expect("connect");
        words(&mut conn, "SELECT message_id FROM outbox_messages").len()
    }

    /// What each of the sessions has that its next user would find: settings and prepared statements.
    fn left_behind(&self) -> BTreeSet<String> {
        let open = |_| {
            let mut conn = sync_connection(&self.through, CacheSize::Disabled);
            // Keeps its session from the others.
            conn.batch_execute("BEGIN").expect("begin");
            conn
        };
        let mut all: Vec<_> = (0..SESSIONS).map(open).collect();
        let sessions: BTreeSet<_> = all.iter_mut().flat_map(|conn| words(conn, "SELECT pg_backend_pid()")).collect();
        assert_eq!(sessions.len(), SESSIONS);
        let found = |conn: &mut PgConnection| {
            let settings = "SELECT name FROM pg_settings WHERE source = 'session'";
            let statements = "SELECT statement FROM pg_prepared_statements WHERE name NOT LIKE 'PGBOUNCER%'";
            [words(conn, settings), words(conn, statements)].concat()
        };
        all.iter_mut().flat_map(found).collect()
    }
}

/// What Diesel sets on each connection, and pgbouncer hands on.
const OF_DIESEL: [&str; 2] = ["TimeZone", "client_encoding"];

fn outbox(path: &ConnectionPath) -> Outbox {
    let builder = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("accounts").ordered_by_key().lanes(4));
    // Where pgbouncer follows prepared statements nothing need be said.
    if path.follows { builder } else { builder.transaction_pooling() }.build().expect("build")
}

fn message(number: i64) -> Message {
    Message::to(if number % 2 == 0 { "orders" } else { "accounts" }).key((number % 7).to_string()).payload_bytes("{}")
}

fn cache(path: &ConnectionPath) -> CacheSize {
    if path.follows { CacheSize::Unbounded } else { CacheSize::Disabled }
}

fn sync_connection(url: &str, cache: CacheSize) -> PgConnection {
    let mut conn = PgConnection::establish(url).expect("connect");
    conn.set_prepared_statement_cache_size(cache);
    conn
}

/// As docs/pgbouncer.md has it.
async fn establish(url: &str) -> ConnectionResult<AsyncPgConnection> {
    let bad = |error: tokio_postgres::Error| ConnectionError::BadConnection(error.to_string());
    let (client, mut connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.map_err(bad)?;
    match select(pin!(client.batch_execute("BEGIN")), &mut connection).await {
        Either::Left((begun, _)) => begun.map_err(bad)?,
        Either::Right((ended, _)) => {
            ended.map_err(bad)?;
            return Err(ConnectionError::BadConnection("the connection was closed".to_owned()));
        }
    }
    let mut conn = AsyncPgConnection::try_from_client_and_connection(client, connection).await?;
    conn.batch_execute("COMMIT").await.map_err(ConnectionError::CouldntSetupConfiguration)?;
    conn.set_prepared_statement_cache_size(CacheSize::Disabled);
    Ok(conn)
}

async fn async_connection(path: &ConnectionPath) -> AsyncPgConnection {
    let made =
        if path.follows { AsyncPgConnection::establish(&path.through).await } else { establish(&path.through).await };
    made.expect("connect")
}

/// Runs `client` for each client at once, and counts what they all did.
async fn at_once<F: Future<Output = usize> + Send + 'static>(client: impl Fn(i64) -> F) -> usize {
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(client(number))).collect();
    let mut all = 0;
    for client in clients {
        all += client.await.expect("a client");
    }
    all
}

fn orders(client: i64) -> impl Iterator<Item = i64> {
    client * EACH..(client + 1) * EACH
}

diesel::table! {
    shop_orders (id) {
        id -> Integer,
    }
}

/// A statement of the application's, which Diesel keeps prepared where it may.
fn place(order: i64, conn: &mut PgConnection) -> QueryResult<usize> {
    let values = shop_orders::id.eq(i32::try_from(order).expect("a small number"));
    diesel::RunQueryDsl::execute(diesel::insert_into(shop_orders::table).values(values), conn)
}

async fn place_async(order: i64, conn: &mut AsyncPgConnection) -> QueryResult<usize> {
    let values = shop_orders::id.eq(i32::try_from(order).expect("a small number"));
    diesel_async::RunQueryDsl::execute(diesel::insert_into(shop_orders::table).values(values), conn).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sync_transaction_commits() {
    for path in paths() {
        let outbox = outbox(&path);
        for own in [false, true] {
            let client = |client| {
                let (outbox, mut conn) = (outbox.clone(), sync_connection(&path.through, cache(&path)));
                async move {
                    let enqueue = move |number| -> QueryResult<MessageId> {
                        let (order, message) = (number + i64::from(own) * 10_000, message(number));
                        if own {
                            outbox.transaction(&mut conn, |tx| {
                                place(order, tx)?;
                                tx.enqueue(&message)
                            })
                        } else {
                            conn.transaction(|conn| {
                                place(order, conn)?;
                                outbox.enqueue(conn, &message)
                            })
                        }
                    };
                    let placed = move || orders(client).map(enqueue).filter(Result::is_ok).count();
                    tokio::task::spawn_blocking(placed).await.expect("a client")
                }
            };
            assert_eq!(at_once(client).await, ALL, "pgbouncer {:?}, own: {own}", path.pooler.version());
        }
        assert_eq!(path.messages(), 2 * ALL);
        if !path.follows {
            assert_eq!(path.left_behind(), OF_DIESEL.map(str::to_owned).into());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_async_transaction_commits() {
    for path in paths() {
        let outbox = outbox(&path);
        for own in [false, true] {
            let mut conns = Vec::new();
            for _ in 0..CLIENTS {
                conns.push(async_connection(&path).await);
            }
            let conns = std::sync::Mutex::new(conns);
            let client = |client| {
                let (outbox, mut conn) = (outbox.clone(), conns.lock().expect("unpoisoned").pop().expect("one each"));
                async move {
                    let mut placed = 0;
                    for number in orders(client) {
                        let (order, message) = (number + i64::from(own) * 10_000, message(number));
                        let result: QueryResult<MessageId> = if own {
                            let placing = outbox.transaction_async(&mut conn, async |tx| {
                                place_async(order, tx.connection()).await?;
                                tx.enqueue(&message)
                            });
                            placing.await
                        } else {
                            let placing = conn.transaction(async |conn| {
                                place_async(order, conn).await?;
                                outbox.enqueue_async(conn, &message).await
                            });
                            placing.await
                        };
                        placed += usize::from(result.is_ok());
                    }
                    placed
                }
            };
            assert_eq!(at_once(client).await, ALL, "pgbouncer {:?}, own: {own}", path.pooler.version());
        }
        assert_eq!(path.messages(), 2 * ALL);
        if !path.follows {
            assert_eq!(path.left_behind(), OF_DIESEL.map(str::to_owned).into());
        }
    }
}

/// The pools that docs/pgbouncer.md describes.
fn sync_pool(path: &ConnectionPath) -> R2d2Pool<ConnectionManager<PgConnection>> {
    let builder = R2d2Pool::builder().max_size(8).test_on_check_out(path.follows);
    builder.build(ConnectionManager::new(&path.through)).expect("a pool")
}

fn async_pool(path: &ConnectionPath) -> Pool<AsyncPgConnection> {
    let (url, mut config) = (&path.through, ManagerConfig::default());
    if !path.follows {
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(|url| Box::pin(establish(url)));
    }
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new_with_config(url, config);
    Pool::builder(manager).max_size(8).build().expect("a pool")
}

/// Relays what was committed before and what comes, and leaves nothing in the sessions.
async fn relays<P: ConnectionPool<diesel::pg::Pg>>(path: &ConnectionPath, pool: impl Fn(&ConnectionPath) -> P) {
    let (outbox, broker) = (outbox(path), MemoryTransport::new());
    let mut conn = PgConnection::establish(&path.direct).expect("connect");
    let mut enqueue = |numbers: std::ops::Range<i64>| -> Vec<MessageId> {
        let mut one = |number| conn.transaction(|conn| outbox.enqueue(conn, &message(number)));
        numbers.map(|number| one(number).expect("enqueue")).collect()
    };
    let mut all = enqueue(0..ALL as i64);
    let store = PostgresStore::new(pool(path)).transaction_pooling();
    let relay = outbox.relay().store(store).transport(broker.clone()).start().await.expect("start");
    all.extend(enqueue(0..ALL as i64));
    let end = Instant::now() + DEADLINE;
    while path.messages() > 0 {
        assert!(Instant::now() < end, "{} are left after {DEADLINE:?}", path.messages());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let admin = outbox.admin(PostgresStore::new(pool(path)).transaction_pooling());
    let dead = admin.dead_letters(&DeadLetterFilter::default(), None, 10).await.expect("the dead letters");
    assert!(dead.items.is_empty(), "{dead:?}");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
    let mut delivered: Vec<_> = broker.delivered().iter().map(|envelope| envelope.message_id).collect();
    delivered.sort_unstable();
    all.sort_unstable();
    assert_eq!(delivered, all, "each once");
    assert_eq!(path.left_behind(), OF_DIESEL.map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_relay_sends_all() {
    for path in paths() {
        relays(&path, sync_pool).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_async_relay_sends_all() {
    for path in paths() {
        relays(&path, async_pool).await;
    }
}

/// Without the setting, by a way to the server that mixes sessions, whether pgbouncer follows prepared statements or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_not_configured_for_a_pooler_does_not_start() {
    async fn refused<P: ConnectionPool<diesel::pg::Pg>>(outbox: &Outbox, pool: P) {
        let relay = outbox.relay().store(PostgresStore::new(pool)).transport(MemoryTransport::new());
        let error = relay.start().await.expect_err("it is refused");
        assert!(matches!(error, StartError::Schema(SchemaProblem::Setting { .. })), "{error:?}");
        assert!(error.to_string().contains("transaction_pooling()"), "{error}");
    }
    for path in paths() {
        let outbox = outbox(&path);
        refused(&outbox, sync_pool(&path)).await;
        refused(&outbox, async_pool(&path)).await;
    }
}
