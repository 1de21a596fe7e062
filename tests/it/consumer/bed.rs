//! A topic, and a database in which the handler writes down each record that it sees.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel::sqlite::SqliteConnection;
use diesel_outbox::MessageId;
use diesel_outbox::admin::ParkedRecord;
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, ParkedRecords, Record, RunningConsumer};
use diesel_outbox::inbox::Inbox;
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::transport::{KafkaConfig, header};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use xtask::servers::ServerKind;
use xtask::test_servers;

pub(crate) use super::starting::{Act, AnyConsumer};
use super::starting::{handler, pool, sqlite_pool};
use crate::outbox::databases::{SqliteFile, fresh_mariadb, fresh_postgres};
use crate::transport::broker::{TIMEOUT, client, make, unique_name};

/// What bounds a wait: many times what the slowest takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// On which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum On {
    Postgres,
    Mariadb,
    Sqlite,
}

/// Whose topic it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Broker {
    Kafka,
    #[cfg(feature = "_test")]
    Rocketmq,
}

/// Where everything is; enough to open it again in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) on: On,
    pub(crate) database_url: String,
    pub(crate) broker: Broker,
    /// Where its servers are.
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
    pub(crate) partitions: i32,
}

pub(crate) struct Bed {
    pub(crate) place: Place,
    _file: Option<SqliteFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub(crate) struct Effect {
    #[diesel(sql_type = Integer)]
    pub(crate) number: i32,
    #[diesel(sql_type = Text)]
    pub(crate) record_key: String,
}

fn schema(seq: &str) -> String {
    format!("CREATE TABLE effects (seq {seq}, number integer NOT NULL, record_key varchar(8000) NOT NULL)")
}

/// Does the same on a connection of any database.
macro_rules! on_any {
    ($place:expr, |$conn:ident| $body:expr) => {
        match $place.on {
            On::Postgres => {
                let $conn = &mut PgConnection::establish(&$place.database_url).expect("connect");
                $body
            }
            On::Mariadb => {
                let $conn = &mut MysqlConnection::establish(&$place.database_url).expect("connect");
                $body
            }
            On::Sqlite => {
                let $conn = &mut SqliteConnection::establish(&$place.database_url).expect("open");
                $conn.batch_execute(SQLITE_PRAGMAS).expect("set up");
                $body
            }
        }
    };
}

impl Bed {
    /// On the shared servers; `None` where one of them cannot be had.
    pub(crate) async fn open(on: On, partitions: i32) -> Option<Self> {
        let bootstrap = test_servers::shared_or_skip(ServerKind::Kafka)?;
        let (url, file) = Self::database(on)?;
        Some(Self::open_at(on, url, bootstrap, partitions, file).await)
    }

    /// A database that has the outbox's tables; `None` where it cannot be had.
    pub(crate) fn database(on: On) -> Option<(String, Option<SqliteFile>)> {
        Some(match on {
            On::Postgres => (fresh_postgres()?, None),
            On::Mariadb => (fresh_mariadb()?, None),
            On::Sqlite => {
                let file = SqliteFile::fresh();
                (file.url(), Some(file))
            }
        })
    }

    /// In a database that has the outbox's tables.
    pub(crate) async fn open_at(
        on: On,
        url: String,
        bootstrap: String,
        partitions: i32,
        file: Option<SqliteFile>,
    ) -> Self {
        let topic = unique_name("consumed");
        make(&bootstrap, &topic, partitions).await;
        Self::with(Place { on, database_url: url, broker: Broker::Kafka, bootstrap, topic, partitions }, file)
    }

    /// With a topic that is there.
    pub(crate) fn with(place: Place, file: Option<SqliteFile>) -> Self {
        let seq = match place.on {
            On::Postgres => "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            On::Mariadb => "bigint NOT NULL AUTO_INCREMENT PRIMARY KEY",
            On::Sqlite => "integer PRIMARY KEY AUTOINCREMENT",
        };
        place.run(&schema(seq));
        // The tables are the same, whatever the broker.
        on_any!(place, |conn| place.consumer().migrate(conn).expect("migrate"));
        Self { place, _file: file }
    }

    pub(crate) async fn on_postgres(partitions: i32) -> Option<Self> {
        Self::open(On::Postgres, partitions).await
    }
}

impl Place {
    pub(crate) fn run(&self, sql: &str) {
        for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
            on_any!(self, |conn| conn.batch_execute(statement).expect("run"));
        }
    }

    /// What the handlers did, in their order.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        let sql = "SELECT number, record_key FROM effects ORDER BY seq";
        on_any!(self, |conn| diesel::sql_query(sql).load(conn).expect("effects"))
    }

    pub(crate) fn parked(&self) -> Vec<ParkedRecord> {
        let parked = ParkedRecords::new(self.group());
        on_any!(self, |conn| parked.list(conn, 0, 1_000).expect("parked"))
    }

    /// Releases the record at an offset.
    pub(crate) fn release(&self, offset: i64) {
        let parked = ParkedRecords::new(self.group());
        let row = self.parked().into_iter().find(|record| record.offset == offset).expect("it is parked");
        assert!(on_any!(self, |conn| parked.release(conn, row.id).expect("released")));
    }

    /// Discards a row, as a consumer without an outbox does.
    pub(crate) fn discard(&self, consumer: &str, id: i64) -> bool {
        on_any!(self, |conn| ParkedRecords::new(consumer).discard(conn, id).expect("discarded"))
    }

    /// Prunes the group's inbox.
    pub(crate) fn prune(&self) {
        let inbox = Inbox::builder(self.group()).build().expect("build");
        on_any!(self, |conn| inbox.prune(conn).expect("pruned"));
    }

    pub(crate) fn count(&self, sql: &str) -> i64 {
        on_any!(self, |conn| diesel::dsl::sql::<BigInt>(sql).get_result(conn).expect("count"))
    }

    /// Sends a record for each number, and returns the ids of their messages.
    pub(crate) fn send(&self, records: impl IntoIterator<Item = (i32, String)>) -> Vec<MessageId> {
        self.send_copies(records.into_iter().map(|(number, key)| (MessageId::new(), number, key)))
    }

    pub(crate) fn send_copies(&self, records: impl IntoIterator<Item = (MessageId, i32, String)>) -> Vec<MessageId> {
        match self.broker {
            Broker::Kafka => {
                let records: Vec<_> = records.into_iter().collect();
                self.send_to_kafka(records.iter().map(|(id, number, key)| (Some(*id), *number, key.as_str())));
                records.into_iter().map(|(id, ..)| id).collect()
            }
            #[cfg(feature = "_test")]
            Broker::Rocketmq => super::rocketmq::send(self, records),
        }
    }

    /// Sends records as a producer without an outbox.
    pub(crate) fn send_without_ids<'k>(&self, records: impl IntoIterator<Item = (i32, &'k str)>) {
        self.send_to_kafka(records.into_iter().map(|(number, key)| (None, number, key)));
    }

    fn send_to_kafka<'k>(&self, records: impl IntoIterator<Item = (Option<MessageId>, i32, &'k str)>) {
        let producer: BaseProducer = client(&self.bootstrap)
            .set("partitioner", "murmur2_random")
            .set("enable.idempotence", "true")
            .create()
            .expect("a producer");
        for (id, number, key) in records {
            let (payload, id) = (number.to_string(), id.map(|id| id.to_string()));
            let headers = id.iter().fold(OwnedHeaders::new(), |headers, id| {
                headers.insert(Header { key: header::MESSAGE_ID, value: Some(id.as_str()) })
            });
            let record = BaseRecord::<str, str>::to(&self.topic).payload(&payload).headers(headers);
            let record = if key.is_empty() { record } else { record.key(key) };
            producer.send(record).unwrap_or_else(|(error, _)| panic!("{error}"));
        }
        producer.flush(TIMEOUT).expect("sent");
    }

    /// With short waits, so that a test need not wait.
    pub(crate) fn consumer(&self) -> KafkaConsumer {
        let config =
            KafkaConfig::new(&self.bootstrap).set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "300");
        KafkaConsumer::new(config, self.group())
            .topic(self.topic.as_str())
            .retry(Fixed::from(vec![Duration::from_millis(50)]))
            .attempts_max(3)
            .commit_interval(Duration::from_millis(50))
    }

    pub(crate) fn group(&self) -> String {
        format!("group-{}", self.topic)
    }

    /// Starts a consumer whose handler writes the effect, unless `before` fails.
    pub(crate) fn start(
        &self,
        consumer: impl AnyConsumer,
        before: impl Fn(&Record) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> RunningConsumer {
        self.start_acting(consumer, move |record| before(record).map_or_else(Act::Fail, |()| Act::Write))
    }

    /// The same, where the handler may also do something else.
    pub(crate) fn start_acting(
        &self,
        consumer: impl AnyConsumer,
        act: impl Fn(&Record) -> Act + Send + Sync + 'static,
    ) -> RunningConsumer {
        let url = &self.database_url;
        match self.on {
            On::Postgres => consumer.start_with(pool::<PgConnection>(url), handler(act)),
            On::Mariadb => consumer.start_with(pool::<MysqlConnection>(url), handler(act)),
            On::Sqlite => consumer.start_with(sqlite_pool(url), handler(act)),
        }
    }

    /// The offsets that the group has committed, by partition; 0 where it has none. Fails while a broker that has just started looks for
    /// the group's coordinator.
    fn committed(&self, reader: &BaseConsumer) -> KafkaResult<BTreeMap<i32, i64>> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(&self.topic, 0, self.partitions - 1);
        let found = reader.committed_offsets(asked, TIMEOUT)?;
        let offset = |offset| if let Offset::Offset(offset) = offset { offset } else { 0 };
        Ok(found.elements().iter().map(|element| (element.partition(), offset(element.offset()))).collect())
    }

    /// The offset that the group has committed in the first partition.
    pub(crate) fn committed_offset(&self) -> i64 {
        let reader: BaseConsumer = client(&self.bootstrap).set("group.id", self.group()).create().expect("a reader");
        self.committed(&reader).expect("committed offsets")[&0]
    }

    /// Commits an offset in each partition of Kafka for the group.
    pub(crate) fn commit_offsets(&self, offset: i64) {
        let group: BaseConsumer = client(&self.bootstrap).set("group.id", self.group()).create().expect("a client");
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_range(&self.topic, 0, self.partitions - 1);
        offsets.set_all_offsets(Offset::Offset(offset)).expect("an offset");
        group.commit(&offsets, CommitMode::Sync).expect("committed");
    }

    /// Waits until the group has committed everything that is in the topic.
    pub(crate) fn wait_until_consumed(&self) {
        match self.broker {
            Broker::Kafka => self.wait_until_consumed_from_kafka(),
            #[cfg(feature = "_test")]
            Broker::Rocketmq => super::rocketmq::wait_until_consumed(self),
        }
    }

    fn wait_until_consumed_from_kafka(&self) {
        let reader: BaseConsumer = client(&self.bootstrap).set("group.id", self.group()).create().expect("a reader");
        let ends: BTreeMap<i32, i64> = (0..self.partitions)
            .map(|id| (id, reader.fetch_watermarks(&self.topic, id, TIMEOUT).expect("the end").1))
            .collect();
        wait_until(&format!("the group commits {ends:?}"), || self.committed(&reader).as_ref() == Ok(&ends));
    }

    pub(crate) fn wait_for_effects(&self, count: usize) {
        wait_until(&format!("{count} effects"), || self.effects().len() >= count);
    }

    /// Checks that each number up to `count` had one effect, and each key in order.
    pub(crate) fn assert_once_in_order(&self, count: i32) {
        let effects = self.effects();
        let mut numbers: Vec<i32> = effects.iter().map(|effect| effect.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "each number has one effect");
        let mut keys: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for effect in &effects {
            keys.entry(&effect.record_key).or_default().push(effect.number);
        }
        for (key, numbers) in keys {
            assert!(numbers.is_sorted(), "key {key}: {numbers:?}");
        }
    }
}

/// Numbers with the keys `k0` to `k9`.
pub(crate) fn numbers(range: std::ops::Range<i32>) -> impl Iterator<Item = (i32, String)> {
    range.map(|number| (number, format!("k{}", number % 10)))
}

/// What the record says.
pub(crate) fn number(record: &Record) -> i32 {
    let payload = record.payload().expect("a payload");
    std::str::from_utf8(payload).expect("text").parse().expect("a number")
}

pub(crate) fn insert(record: &Record) -> String {
    let key = record.key().map(|key| String::from_utf8_lossy(key).into_owned()).unwrap_or_default();
    let mut sql = String::new();
    write!(sql, "INSERT INTO effects (number, record_key) VALUES ({}, '{key}')", number(record))
        .expect("a String grows");
    sql
}

/// Keeps handlers waiting until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn wait(&self) {
        let (is_open, opened) = &*self.0;
        drop(opened.wait_timeout_while(is_open.lock().expect("no panic"), DEADLINE, |is_open| !*is_open));
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }
}

/// Polls until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
