//! A PostgreSQL server with TLS, by the connections that docs/operations.md describes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel::{ConnectionError, ConnectionResult};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, deadpool};
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::{NoticeConnection, OutboxStore, PostgresStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Outbox, Topic};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use xtask::servers::{Postgres, postgres::Options};
use xtask::test_servers;

use super::databases::pool;
use super::order;

const AUTHORITY: &str = include_str!("../transport/http/certificates/authority.pem");
const CERTIFICATE: &str = include_str!("../transport/http/certificates/receiver.pem");
const KEY: &str = include_str!("../transport/http/certificates/receiver.key");

const DEADLINE: Duration = Duration::from_secs(60);

/// Connections of the relay, which its URL names, with TLS and without.
const OF_RELAY: &str = "SELECT count(*) FILTER (WHERE ssl) AS with_tls, count(*) FILTER (WHERE NOT ssl) AS without_tls
    FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'relay'";

#[derive(Debug, QueryableByName, PartialEq)]
struct Connections {
    #[diesel(sql_type = BigInt)]
    with_tls: i64,
    #[diesel(sql_type = BigInt)]
    without_tls: i64,
}

/// A server with the tests' certificate, and the outbox's tables.
fn server() -> Option<(Postgres, PgConnection)> {
    let server = test_servers::own_or_skip(Postgres::start(&Options::default()))?;
    let mut conn = PgConnection::establish(&server.url()).expect("connect");
    for (file, text) in [("server.crt", CERTIFICATE), ("server.key", KEY)] {
        // By the server, which refuses a key that somebody else owns.
        let lines = text.trim_end().lines().map(|line| format!("('{line}')")).collect::<Vec<_>>().join(",");
        let copy = format!("COPY (VALUES {lines}) TO PROGRAM 'umask 077; cat > {file}'");
        conn.batch_execute(&copy).unwrap_or_else(|error| panic!("{error}\n{copy}"));
    }
    conn.batch_execute("ALTER SYSTEM SET ssl = on").expect("set");
    conn.batch_execute("SELECT pg_reload_conf()").expect("reload");
    let (with_tls, deadline) = (format!("{}?sslmode=require", server.url()), Instant::now() + DEADLINE);
    while let Err(error) = PgConnection::establish(&with_tls) {
        assert!(Instant::now() < deadline, "{error}");
    }
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    Some((server, conn))
}

fn outbox() -> Outbox {
    let builder = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("payments").ordered_by_key());
    builder.allow_outside_transaction().build().expect("an outbox")
}

/// The relay delivers, and has connections with TLS alone.
async fn relays(conn: &mut PgConnection, store: impl OutboxStore) {
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let relay = outbox.relay().store(store).transport(broker.clone()).start().await.expect("start");
    outbox.enqueue(conn, &order(1)).expect("enqueue");
    broker.wait_for_delivered(1, DEADLINE).await.expect("it arrives");
    let found: Connections = diesel::sql_query(OF_RELAY).get_result(conn).expect("connections");
    assert!(found.with_tls > 0 && found.without_tls == 0, "{found:?}");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_of_diesel_async_uses_tls_by_rustls() {
    let Some((server, mut conn)) = server() else { return };
    let url = format!("{}?application_name=relay&sslmode=require", server.url());
    let mut config = ManagerConfig::default();
    config.custom_setup = Box::new(|url| Box::pin(establish(url)));
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new_with_config(&url, config);
    let pool = deadpool::Pool::builder(manager).max_size(6).build().expect("a pool");
    let notices = NoticeConnection::from_fn(move || {
        let url = url.clone();
        async move { establish(&url).await }
    });
    relays(&mut conn, PostgresStore::new(pool).notice_connection(notices)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_of_diesel_uses_the_tls_of_libpq() {
    let Some((server, mut conn)) = server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, AUTHORITY).expect("write");
    let settings = format!("application_name=relay&sslmode=verify-full&sslrootcert={}", authority.display());
    let url = format!("{}?{settings}", server.url());
    relays(&mut conn, PostgresStore::new(pool::<PgConnection>(&url))).await;
}

async fn establish(url: &str) -> ConnectionResult<AsyncPgConnection> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let tls = MakeRustlsConnect::new(builder.with_root_certificates(roots).with_no_client_auth());
    let (client, connection) =
        tokio_postgres::connect(url, tls).await.map_err(|error| ConnectionError::BadConnection(error.to_string()))?;
    AsyncPgConnection::try_from_client_and_connection(client, connection).await
}
