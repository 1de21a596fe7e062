//! A database and a topic of a test's own. A scan is a business row that names its message.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::sql_query;
use diesel::sql_types::{Bool, Integer, Uuid as SqlUuid};
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::header;
use diesel_outbox::{HalfMessages, Message, MessageId, Outbox, Topic};
use uuid::Uuid;
use xtask::parts;
use xtask::servers::Part;
use xtask::servers::rocketmq::create_topic;

use crate::transport::rocketmq::{config, fresh};
use crate::transport::rocketmq_broker;

/// As long as the tests' broker asks about a message: sixty times, a second apart.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Where it all is: enough to open it again in another process.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Yard {
    pub(super) database_url: String,
    pub(super) name_server: String,
    pub(super) topic: String,
}

#[derive(QueryableByName)]
struct Id {
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
}

#[derive(QueryableByName)]
struct Marked {
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
    #[diesel(sql_type = Bool)]
    is_void: bool,
}

impl Yard {
    /// On the shared servers; `None` where one of them cannot be had.
    pub(super) fn open() -> Option<Self> {
        let name_server = parts::require(Part::Rocketmq)?;
        Self::open_on(&name_server)
    }

    pub(super) fn open_on(name_server: &str) -> Option<Self> {
        let server = parts::require(Part::Postgres)?;
        let name = format!("yard_{}", Uuid::now_v7().simple());
        PgConnection::establish(&server).unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        let topic = fresh("scans");
        create_topic(name_server, &topic).unwrap();
        let yard = Self { database_url: format!("{base}/{name}"), name_server: name_server.to_owned(), topic };
        let mut conn = yard.connect();
        conn.run_pending_migrations(MIGRATIONS).unwrap();
        conn.batch_execute(
            "CREATE TABLE scans (number integer PRIMARY KEY, message_id uuid NOT NULL); \
             CREATE TABLE sent (message_id uuid PRIMARY KEY)",
        )
        .unwrap();
        Some(yard)
    }

    pub(super) fn connect(&self) -> PgConnection {
        PgConnection::establish(&self.database_url).unwrap()
    }

    pub(super) fn outbox(&self) -> Outbox {
        Outbox::builder().topic(Topic::new(self.topic.as_str())).build().unwrap()
    }

    pub(super) fn store(&self) -> PostgresStore<Pool<ConnectionManager<PgConnection>>> {
        let pool = Pool::builder().max_size(6).build(ConnectionManager::new(&self.database_url)).unwrap();
        PostgresStore::new(pool)
    }

    /// A group for each yard: the shared broker knows the others', too.
    pub(super) fn halves(&self) -> HalfMessages {
        let config = config(&self.name_server).group(self.topic.as_str());
        self.outbox().half_messages_blocking(self.store(), config).unwrap()
    }

    pub(super) fn message(&self, number: i32) -> Message {
        let key = format!("dock-{}", number % 3);
        Message::to(self.topic.as_str()).kind("scanned").key(key).payload_bytes(number.to_string())
    }

    /// The messages of the business rows that there are.
    pub(super) fn committed(&self) -> BTreeSet<MessageId> {
        let rows: Vec<Id> = sql_query("SELECT message_id FROM scans").load(&mut self.connect()).unwrap();
        rows.into_iter().map(|row| row.message_id.into()).collect()
    }

    /// The marks, and whether each is void.
    pub(super) fn marks(&self) -> Vec<(MessageId, bool)> {
        let marks = sql_query("SELECT message_id, is_void FROM outbox_half_messages");
        let rows: Vec<Marked> = marks.load(&mut self.connect()).unwrap();
        rows.into_iter().map(|row| (row.message_id.into(), row.is_void)).collect()
    }

    /// The messages that consumers can see.
    pub(super) fn delivered(&self) -> Vec<MessageId> {
        let messages = rocketmq_broker::read(&self.name_server, &self.topic);
        messages.iter().map(|message| message.properties[header::MESSAGE_ID].parse().unwrap()).collect()
    }

    /// Waits until exactly the committed messages are delivered, each once.
    pub(super) fn until_delivered_once(&self) {
        until("what is committed is delivered", || self.committed().is_subset(&self.delivered().into_iter().collect()));
        let delivered = self.delivered();
        assert_eq!(delivered.len(), self.committed().len(), "{delivered:?}");
        assert_eq!(delivered.into_iter().collect::<BTreeSet<_>>(), self.committed());
    }
}

pub(super) fn insert(conn: &mut PgConnection, number: i32, id: MessageId) -> QueryResult<usize> {
    sql_query("INSERT INTO scans VALUES ($1, $2)")
        .bind::<Integer, _>(number)
        .bind::<SqlUuid, _>(*id.as_uuid())
        .execute(conn)
}

pub(super) fn until(what: &str, mut state: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
