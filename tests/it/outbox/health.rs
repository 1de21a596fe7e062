//! The health of a relay whose database goes away and comes back.

use std::time::{Duration, Instant};

use diesel::connection::Connection as _;
use diesel::pg::PgConnection;
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::relay::{RelayHandle, RelayHealth};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::MemoryTransport;
use xtask::servers::{Postgres, postgres::Options};
use xtask::test_servers;

use super::{order, outbox};

const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a state, in which the relay is live and ready all the time.
async fn until(handle: &RelayHandle, what: &str, state: impl Fn(&RelayHealth) -> bool) {
    let end = Instant::now() + DEADLINE;
    loop {
        let health = handle.health();
        assert!(health.live && health.ready, "{what}: {health:?}");
        if state(&health) {
            return;
        }
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}: {health:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_killed_and_started_again_leaves_the_relay_ready() {
    let Some(mut server) = test_servers::own_or_skip(Postgres::start(&Options::default())) else { return };
    let mut conn = PgConnection::establish(&server.url()).expect("connect");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let store = PostgresStore::connect(server.url()).expect("an address");
    let relay = outbox.relay().store(store).transport(broker.clone()).start().await.expect("start");
    let handle = relay.handle();
    assert!(handle.health().is_ready_strict(), "{:?}", handle.health());

    server.kill9().expect("kill -9");
    until(&handle, "the database is down", |health| health.degraded && !health.is_ready_strict()).await;
    let problems = handle.health().problems;
    assert!(problems.iter().any(|problem| problem.contains("the database has been down")), "{problems:?}");
    server.start_again().expect("start again");
    until(&handle, "the database is back", RelayHealth::is_ready_strict).await;

    let mut conn = PgConnection::establish(&server.url()).expect("connect");
    outbox.enqueue(&mut conn, &order(1)).expect("enqueue");
    broker.wait_for_delivered(1, DEADLINE).await.expect("it arrives");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}
