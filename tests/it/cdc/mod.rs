//! docs/cdc.md, with its own settings, statements and class: a real Debezium reads the outbox's table.

mod moves;
mod same_record;

use std::path::Path;

use diesel::connection::{Connection as _, SimpleConnection as _};
use diesel::pg::PgConnection;
use diesel::sql_types::BigInt;
use diesel::{QueryableByName, RunQueryDsl as _};
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::KafkaTransport;
use diesel_outbox::{Outbox, Topic};
use xtask::servers::debezium::{self, Connector};
use xtask::servers::{Debezium, Postgres, ServerKind, postgres};
use xtask::test_servers;

use crate::consumer::bed::wait_until;
use crate::docs::read;
use crate::outbox::databases::pool;
use crate::transport::broker;

/// The topic of Debezium's heartbeats.
const HEARTBEATS: &str = "__debezium-heartbeat.outbox";

/// The first code block of docs/cdc.md in `language` with `part` in it.
fn block(language: &str, part: &str) -> String {
    let (page, fence) = (read("docs/cdc.md"), format!("```{language}\n"));
    let mut blocks = page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(part)).expect("a code block of docs/cdc.md").to_owned()
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn count(conn: &mut PgConnection, from: &str) -> i64 {
    diesel::sql_query(format!("SELECT count(*) AS count FROM {from}")).get_result::<Count>(conn).expect("a count").count
}

/// A database whose log can be decoded, a broker and a worker. The topic is `self.topic`.
struct Bed {
    database: Postgres,
    bootstrap: String,
    worker: Debezium,
    topic: String,
}

impl Bed {
    async fn open() -> Option<Self> {
        let bootstrap = test_servers::shared_or_skip(ServerKind::Kafka)?;
        let settings = vec![("wal_level".to_owned(), "logical".to_owned())];
        let database =
            test_servers::own_or_skip(Postgres::start(&postgres::Options { settings, ..Default::default() }))?;
        let sources = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/debezium/OutboxHeaders.java")];
        let settings = vec![("offset.flush.interval.ms".to_owned(), "500".to_owned())];
        let options = debezium::Options { bootstrap: bootstrap.clone(), sources, settings, ..Default::default() };
        let worker = test_servers::own_or_skip(Debezium::start(&options))?;
        let mut conn = PgConnection::establish(&database.url()).expect("connect");
        conn.run_pending_migrations(MIGRATIONS).expect("migrate");
        conn.batch_execute(&block("sql", "CREATE PUBLICATION")).expect("the publication");
        let topic = broker::unique_name("cdc");
        broker::make(&bootstrap, &topic, 3).await;
        broker::make_unless_there(&bootstrap, HEARTBEATS).await;
        Some(Self { database, bootstrap, worker, topic })
    }

    fn conn(&self) -> PgConnection {
        PgConnection::establish(&self.database.url()).expect("connect")
    }

    fn outbox(&self) -> Outbox {
        Outbox::builder().topic(Topic::new(self.topic.clone())).build().expect("an outbox")
    }

    async fn relay(&self, outbox: &Outbox) -> Relay {
        let kafka = KafkaTransport::new(broker::config(&self.bootstrap)).expect("a transport");
        let store = PostgresStore::new(pool::<PgConnection>(&self.database.url()));
        outbox.relay().store(store).transport(kafka).start().await.expect("start")
    }

    /// Creates the connector by the page's settings; returns when its slot is active.
    fn connect(&self) -> Connector {
        let properties = block("properties", "EventRouter") + "heartbeat.interval.ms=500\n";
        let connector = Connector::create(&self.worker.address(), &self.database.url(), &properties);
        let connector = connector.expect("the connector runs");
        self.wait_for_slot("active");
        connector
    }

    fn wait_for_slot(&self, state: &str) {
        let (mut conn, slots) = (self.conn(), format!("pg_replication_slots WHERE slot_name = 'outbox' AND {state}"));
        wait_until("the slot's state", || count(&mut conn, &slots) == 1);
    }

    fn wait_until_empty(&self) {
        let mut conn = self.conn();
        wait_until("the table is empty", || count(&mut conn, "outbox_messages") == 0);
    }
}
