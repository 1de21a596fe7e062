//! One node of a consumer: a connection, sync or async, to a database of the test's own.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use diesel::connection::{Connection, TransactionManager as _};
use diesel::result::Error;
use diesel_async::{AsyncConnection, TransactionManager as _};
use diesel_outbox::inbox::{Claim, Inbox, InboxError, InboxKey, Once, Pruned};
use diesel_outbox::migrations::EmbeddedMigrations;
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::{AsyncOutboxBackend, OutboxBackend, TransactionConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::outbox::databases::{empty_mariadb, empty_postgres};

/// Why a message of these tests was not handled.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("on purpose")]
    OnPurpose,
    #[error(transparent)]
    Inbox(#[from] InboxError),
    #[error(transparent)]
    Database(#[from] Error),
}

/// What the handler does at its end, for each message: whether it fails.
pub(super) type Fails<'a> = &'a (dyn Fn(&InboxKey) -> bool + Sync);

pub(super) const NEVER: Fails<'static> = &|_| false;

/// What the handler writes. A message that is handled twice has two rows.
fn effects(inbox: &Inbox, keys: &[&InboxKey]) -> String {
    let rows: Vec<String> = keys.iter().map(|key| format!("('{key}', '{}')", inbox.consumer())).collect();
    format!("INSERT INTO effects (id, consumer) VALUES {}", rows.join(", "))
}

pub(super) trait Node: Sized + Send {
    const DATABASE: Database;

    fn open(url: &str) -> Self;
    fn run(&mut self, sql: &str) -> Result<(), Error>;
    fn texts(&mut self, sql: &str) -> Vec<String>;
    fn begin(&mut self);
    fn commit(&mut self) -> Result<(), Error>;
    fn roll_back(&mut self);
    fn migrate(&mut self, inbox: &Inbox) -> Vec<String>;
    fn claim(&mut self, inbox: &Inbox, key: InboxKey) -> Result<Claim, InboxError>;
    fn claim_many(&mut self, inbox: &Inbox, keys: &[InboxKey]) -> Result<Vec<Claim>, InboxError>;
    fn once(&mut self, inbox: &Inbox, key: InboxKey, fails: Fails<'_>) -> Result<Once<()>, Failed>;
    fn once_many(
        &mut self,
        inbox: &Inbox,
        keys: &[InboxKey],
        fails: Fails<'_>,
    ) -> Result<Vec<Result<Once<()>, Failed>>, InboxError>;
    /// The handler also runs these statements and ignores their errors, in each call for `keys.len()` messages.
    fn ignoring(&mut self, inbox: &Inbox, keys: &[InboxKey], statements: &[&str]) -> Vec<Result<Once<()>, Failed>>;
    fn prune(&mut self, inbox: &Inbox) -> Result<Pruned, InboxError>;
}

/// Over a connection of Diesel.
pub(super) struct SyncNode<C>(C);

impl<C> Node for SyncNode<C>
where
    C: Connection + Send,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations + OnDatabase,
{
    const DATABASE: Database = C::Backend::DATABASE;

    fn open(url: &str) -> Self {
        let mut node = Self(C::establish(url).expect("connect"));
        node.run(Self::DATABASE.set_up()).expect("set up");
        node
    }
    fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.0.batch_execute(sql)
    }
    fn texts(&mut self, sql: &str) -> Vec<String> {
        C::Backend::texts(&mut self.0, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
    fn begin(&mut self) {
        C::TransactionManager::begin_transaction(&mut self.0).expect("begin");
    }
    fn commit(&mut self) -> Result<(), Error> {
        C::TransactionManager::commit_transaction(&mut self.0)
    }
    fn roll_back(&mut self) {
        C::TransactionManager::rollback_transaction(&mut self.0).expect("roll back");
    }
    fn migrate(&mut self, inbox: &Inbox) -> Vec<String> {
        inbox.migrate(&mut self.0).expect("migrate")
    }
    fn claim(&mut self, inbox: &Inbox, key: InboxKey) -> Result<Claim, InboxError> {
        inbox.claim(&mut self.0, key)
    }
    fn claim_many(&mut self, inbox: &Inbox, keys: &[InboxKey]) -> Result<Vec<Claim>, InboxError> {
        inbox.claim_many(&mut self.0, keys)
    }
    fn once(&mut self, inbox: &Inbox, key: InboxKey, fails: Fails<'_>) -> Result<Once<()>, Failed> {
        inbox.once(&mut self.0, key, |conn| {
            conn.batch_execute(&effects(inbox, &[&key]))?;
            if fails(&key) { Err(Failed::OnPurpose) } else { Ok(()) }
        })
    }
    fn once_many(
        &mut self,
        inbox: &Inbox,
        keys: &[InboxKey],
        fails: Fails<'_>,
    ) -> Result<Vec<Result<Once<()>, Failed>>, InboxError> {
        let messages: Vec<_> = keys.iter().map(|key| (*key, *key)).collect();
        inbox.once_many(&mut self.0, &messages, |conn, keys| {
            conn.batch_execute(&effects(inbox, keys))?;
            if keys.iter().any(|key| fails(key)) { Err(Failed::OnPurpose) } else { Ok(()) }
        })
    }
    fn ignoring(&mut self, inbox: &Inbox, keys: &[InboxKey], statements: &[&str]) -> Vec<Result<Once<()>, Failed>> {
        let handle = |conn: &mut C, handled: &[&InboxKey]| {
            conn.batch_execute(&effects(inbox, handled))?;
            if handled.len() == keys.len() {
                statements.iter().for_each(|statement| drop(conn.batch_execute(statement)));
            }
            Ok::<_, Failed>(())
        };
        if let [key] = keys {
            return vec![inbox.once(&mut self.0, *key, |conn| handle(conn, &[key]))];
        }
        let messages: Vec<_> = keys.iter().map(|key| (*key, *key)).collect();
        inbox.once_many(&mut self.0, &messages, handle).expect("outside a transaction")
    }
    fn prune(&mut self, inbox: &Inbox) -> Result<Pruned, InboxError> {
        inbox.prune(&mut self.0)
    }
}

/// Over a connection of diesel-async.
pub(super) struct AsyncNode<C> {
    runtime: Runtime,
    conn: OnceCell<C>,
}

impl<C> AsyncNode<C> {
    fn split(&mut self) -> (&Runtime, &mut C) {
        (&self.runtime, self.conn.get_mut().expect("a connection"))
    }
}

impl<C> Drop for AsyncNode<C> {
    fn drop(&mut self) {
        // Its task ends in the runtime.
        let _entered = self.runtime.enter();
        drop(self.conn.take());
    }
}

impl<C> Node for AsyncNode<C>
where
    C: AsyncConnection + TransactionConnection<Inner = C> + Send + 'static,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations + OnDatabase,
{
    const DATABASE: Database = C::Backend::DATABASE;

    fn open(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let conn = runtime.block_on(C::establish(url)).expect("connect");
        let mut node = Self { runtime, conn: conn.into() };
        node.run(Self::DATABASE.set_up()).expect("set up");
        node
    }
    fn run(&mut self, sql: &str) -> Result<(), Error> {
        let (runtime, conn) = self.split();
        runtime.block_on(conn.batch_execute(sql))
    }
    fn texts(&mut self, sql: &str) -> Vec<String> {
        let (runtime, conn) = self.split();
        runtime.block_on(C::Backend::texts_async(conn, sql)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
    fn begin(&mut self) {
        let (runtime, conn) = self.split();
        runtime.block_on(C::TransactionManager::begin_transaction(conn)).expect("begin");
    }
    fn commit(&mut self) -> Result<(), Error> {
        let (runtime, conn) = self.split();
        runtime.block_on(C::TransactionManager::commit_transaction(conn))
    }
    fn roll_back(&mut self) {
        let (runtime, conn) = self.split();
        runtime.block_on(C::TransactionManager::rollback_transaction(conn)).expect("roll back");
    }
    fn migrate(&mut self, inbox: &Inbox) -> Vec<String> {
        let (runtime, conn) = self.split();
        runtime.block_on(inbox.migrate_async(conn)).expect("migrate")
    }
    fn claim(&mut self, inbox: &Inbox, key: InboxKey) -> Result<Claim, InboxError> {
        let (runtime, conn) = self.split();
        runtime.block_on(inbox.claim_async(conn, key))
    }
    fn claim_many(&mut self, inbox: &Inbox, keys: &[InboxKey]) -> Result<Vec<Claim>, InboxError> {
        let (runtime, conn) = self.split();
        runtime.block_on(inbox.claim_many_async(conn, keys))
    }
    fn once(&mut self, inbox: &Inbox, key: InboxKey, fails: Fails<'_>) -> Result<Once<()>, Failed> {
        let (runtime, conn) = self.split();
        let fails = fails(&key);
        runtime.block_on(inbox.once_async(conn, key, async |conn: &mut C| {
            conn.batch_execute(&effects(inbox, &[&key])).await?;
            if fails { Err(Failed::OnPurpose) } else { Ok(()) }
        }))
    }
    fn once_many(
        &mut self,
        inbox: &Inbox,
        keys: &[InboxKey],
        fails: Fails<'_>,
    ) -> Result<Vec<Result<Once<()>, Failed>>, InboxError> {
        let (runtime, conn) = self.split();
        let messages: Vec<_> = keys.iter().map(|key| (*key, *key)).collect();
        runtime.block_on(inbox.once_many_async(conn, &messages, |conn, keys| {
            let (sql, fails) = (effects(inbox, keys), keys.iter().any(|key| fails(key)));
            Box::pin(async move {
                conn.batch_execute(&sql).await?;
                if fails { Err(Failed::OnPurpose) } else { Ok(()) }
            })
        }))
    }
    fn ignoring(&mut self, inbox: &Inbox, keys: &[InboxKey], statements: &[&str]) -> Vec<Result<Once<()>, Failed>> {
        let (runtime, conn) = self.split();
        if let [key] = keys {
            return vec![runtime.block_on(inbox.once_async(conn, *key, async |conn: &mut C| {
                conn.batch_execute(&effects(inbox, &[key])).await?;
                for statement in statements {
                    drop(conn.batch_execute(statement).await);
                }
                Ok(())
            }))];
        }
        let messages: Vec<_> = keys.iter().map(|key| (*key, *key)).collect();
        let handled = runtime.block_on(inbox.once_many_async(conn, &messages, |conn, handled| {
            let sql = effects(inbox, handled);
            let statements: Vec<String> = match handled.len() == keys.len() {
                true => statements.iter().map(|statement| (*statement).to_owned()).collect(),
                false => Vec::new(),
            };
            Box::pin(async move {
                conn.batch_execute(&sql).await?;
                for statement in statements {
                    drop(conn.batch_execute(&statement).await);
                }
                Ok(())
            })
        }));
        handled.expect("outside a transaction")
    }
    fn prune(&mut self, inbox: &Inbox) -> Result<Pruned, InboxError> {
        let (runtime, conn) = self.split();
        runtime.block_on(inbox.prune_async(conn))
    }
}

/// What differs between the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    Postgres,
    Mariadb,
    Sqlite,
}

pub(super) trait OnDatabase {
    const DATABASE: Database;
}

impl OnDatabase for diesel::pg::Pg {
    const DATABASE: Database = Database::Postgres;
}

impl OnDatabase for diesel::mysql::Mysql {
    const DATABASE: Database = Database::Mariadb;
}

impl OnDatabase for diesel::sqlite::Sqlite {
    const DATABASE: Database = Database::Sqlite;
}

impl Database {
    fn set_up(self) -> &'static str {
        if self == Self::Sqlite { SQLITE_PRAGMAS } else { "SELECT 1" }
    }

    /// A query for a number, as text.
    fn as_text(self, number: &str, from: &str) -> String {
        format!("SELECT CAST({number} AS {}) FROM {from}", if self == Self::Mariadb { "char" } else { "text" })
    }

    /// Counts the sessions of this database that wait for a lock; `None` if it cannot be seen.
    fn waiting(self) -> Option<&'static str> {
        match self {
            Self::Postgres => Some("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"),
            Self::Mariadb => Some(
                "information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                 WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'",
            ),
            Self::Sqlite => None,
        }
    }
}

/// A database with the inbox's tables.
pub(super) struct Place<N> {
    pub(super) url: String,
    _folder: Option<TempDir>,
    node: std::marker::PhantomData<fn() -> N>,
}

impl<N: Node> Place<N> {
    /// `None` where its server is missing, which is recorded.
    pub(super) fn fresh(inbox: &Inbox) -> Option<Self> {
        let place = Self::empty()?;
        place.node().migrate(inbox);
        Some(place)
    }

    /// The same without the inbox's tables.
    pub(super) fn empty() -> Option<Self> {
        let (url, folder) = match N::DATABASE {
            Database::Postgres => (empty_postgres()?, None),
            Database::Mariadb => (empty_mariadb()?, None),
            Database::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder");
                (folder.path().join("shop.db").to_str().expect("a plain path").to_owned(), Some(folder))
            }
        };
        let place = Self { url, _folder: folder, node: std::marker::PhantomData };
        place
            .node()
            .run("CREATE TABLE effects (id varchar(36) NOT NULL, consumer varchar(50) NOT NULL)")
            .expect("create");
        Some(place)
    }

    pub(super) fn node(&self) -> N {
        N::open(&self.url)
    }

    pub(super) fn number(&self, number: &str, from: &str) -> i64 {
        let texts = self.node().texts(&N::DATABASE.as_text(number, from));
        texts.first().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{texts:?}"))
    }

    /// How often a message was handled, by all consumers.
    pub(super) fn effects(&self, key: InboxKey) -> i64 {
        self.number("count(*)", &format!("effects WHERE id = '{key}'"))
    }

    pub(super) fn entries(&self) -> i64 {
        self.number("count(*)", "outbox_inbox")
    }

    /// From when on entries are kept, in milliseconds since 1970.
    pub(super) fn kept_from(&self) -> i64 {
        self.number(if N::DATABASE == Database::Postgres { "last_value" } else { "kept_from" }, "outbox_inbox_start")
    }

    /// Moves the inbox's start, as a prune does.
    pub(super) fn set_kept_from(&self, ms: i64) {
        let sql = match N::DATABASE {
            Database::Postgres => format!("SELECT setval('outbox_inbox_start', {ms})"),
            _ => format!("UPDATE outbox_inbox_start SET kept_from = {ms}"),
        };
        self.node().run(&sql).expect("move the start");
    }

    /// Until this many sessions wait for a lock.
    pub(super) fn until_waiting(&self, sessions: i64) {
        let Some(waiting) = N::DATABASE.waiting() else { return };
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.number("count(*)", waiting) < sessions {
            assert!(Instant::now() < deadline, "{sessions} sessions should wait for a lock");
            // InnoDB keeps its answer while it is asked again within 0.1 s, by other tests, too.
            std::thread::park_timeout(Duration::from_millis(fastrand::u64(150..900)));
        }
    }
}

/// A key of a message that was made then.
pub(super) fn key_of(ms: i64, text: &str) -> InboxKey {
    let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs());
    InboxKey::of_text(text).dated(at)
}
