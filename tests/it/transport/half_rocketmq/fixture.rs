//! A database and a topic of a test's own. A scan is a business row that names its message.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel_outbox::half_messages::HalfMessages;
use diesel_outbox::transport::header;
use diesel_outbox::{Message, MessageId, Outbox, Topic};
use tempfile::TempDir;
use uuid::Uuid;
use xtask::servers::ServerKind;
use xtask::servers::rocketmq::create_topic;
use xtask::test_servers;

use super::database::TestDatabase;
use super::watched_store::{StoreProbe, WatchedStore};
use crate::transport::rocketmq::{config, unique_name};
use crate::transport::rocketmq_broker;

/// As long as the tests' broker asks about a message: sixty times, a second apart.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Where it all is: enough to open it again in another process.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(bound = "")]
pub(super) struct Fixture<S: TestDatabase> {
    pub(super) database_url: String,
    pub(super) name_server: String,
    pub(super) topic: String,
    namespace: Option<String>,
    #[serde(skip)]
    _folder: Option<TempDir>,
    #[serde(skip)]
    site: PhantomData<S>,
}

impl<S: TestDatabase> Fixture<S> {
    /// On the shared servers; `None` where one of them cannot be had.
    pub(super) fn open() -> Option<Self> {
        let name_server = test_servers::shared_or_skip(ServerKind::Rocketmq)?;
        Self::open_on(&name_server)
    }

    pub(super) fn open_on(name_server: &str) -> Option<Self> {
        Self::open_in(name_server, None)
    }

    /// With its topic in a namespace of the cluster, where one is given.
    pub(super) fn open_in(name_server: &str, namespace: Option<&str>) -> Option<Self> {
        let (database_url, folder) = S::fresh()?;
        let mut conn = S::connect(&database_url);
        conn.migrate();
        conn.batch_execute(
            "CREATE TABLE scans (number integer NOT NULL PRIMARY KEY, message_id char(36) NOT NULL); \
             CREATE TABLE sent (message_id char(36) NOT NULL PRIMARY KEY)",
        )
        .unwrap();
        let fixture = Self {
            database_url,
            name_server: name_server.to_owned(),
            topic: unique_name("scans"),
            namespace: namespace.map(str::to_owned),
            _folder: folder,
            site: PhantomData,
        };
        create_topic(name_server, &fixture.wire_topic()).unwrap();
        Some(fixture)
    }

    /// The topic as the cluster has it.
    fn wire_topic(&self) -> String {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}%"));
        format!("{}{}", namespace.unwrap_or_default(), self.topic)
    }

    pub(super) fn connect(&self) -> S {
        S::connect(&self.database_url)
    }

    pub(super) fn outbox(&self) -> Outbox {
        Outbox::builder().topic(Topic::new(self.topic.as_str())).build().unwrap()
    }

    pub(super) fn halves(&self) -> HalfMessages {
        self.watched_halves().0
    }

    /// And what a test sees of their store.
    ///
    /// A group for each fixture: the shared broker knows the others', too.
    pub(super) fn watched_halves(&self) -> (HalfMessages, Arc<StoreProbe>) {
        let mut config = config(&self.name_server).group(self.topic.as_str());
        if let Some(namespace) = &self.namespace {
            config = config.namespace(namespace);
        }
        let watch = Arc::<StoreProbe>::default();
        let store = WatchedStore { store: S::store(&self.database_url), watch: Arc::clone(&watch) };
        (self.outbox().half_messages_blocking(store, config).unwrap(), watch)
    }

    pub(super) fn message(&self, number: i32) -> Message {
        let key = format!("dock-{}", number % 3);
        Message::to(self.topic.as_str()).kind("scanned").key(key).payload_bytes(number.to_string())
    }

    /// The messages of the business rows that there are.
    pub(super) fn committed(&self) -> BTreeSet<MessageId> {
        let ids = self.connect().texts("SELECT message_id AS text FROM scans");
        ids.iter().map(|id| id.parse().unwrap()).collect()
    }

    /// The first messages that were sent.
    pub(super) fn first_sent(&self, count: usize) -> BTreeSet<MessageId> {
        let ids = self.connect().texts("SELECT message_id AS text FROM sent");
        let ids: BTreeSet<MessageId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        ids.into_iter().take(count).collect()
    }

    /// The marks, and whether each is void.
    pub(super) fn marks(&self) -> Vec<(MessageId, bool)> {
        let mark = |text: &String| {
            let (id, is_void) = text.split_once(' ').unwrap();
            (Uuid::parse_str(id).unwrap().into(), is_void == "1")
        };
        self.connect().texts(S::MARKS).iter().map(mark).collect()
    }

    /// The messages that consumers can see.
    pub(super) fn delivered(&self) -> Vec<MessageId> {
        let messages = rocketmq_broker::read(&self.name_server, &self.wire_topic());
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

pub(super) fn insert(conn: &mut impl TestDatabase, number: i32, id: MessageId) -> QueryResult<()> {
    conn.batch_execute(&format!("INSERT INTO scans VALUES ({number}, '{id}')"))
}

pub(super) fn until(what: &str, mut state: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
