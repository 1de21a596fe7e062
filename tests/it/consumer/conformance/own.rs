//! A consumer as an application may write one, on SQLite, with a broker in memory; and the same with one mistake.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_types::Text;
use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, Inbox, InboxError};
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::testing::ConsumerUnderTest;
use tempfile::TempDir;

const PARTITIONS: usize = 3;

/// What this consumer does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    None,
    /// Calls the handler for every copy.
    ClaimsNothing,
    /// Knows the ids that its own process has handled.
    RemembersInMemory,
    /// Looks for the id before the transaction, and writes it at its end.
    LooksFirst,
    /// Puts a record that failed behind all others.
    RetriesLater,
    /// Claims in a transaction before that of the handler.
    ClaimsApart,
    /// Commits what a handler wrote that failed.
    IgnoresErrors,
    /// Handles what the inbox refuses.
    HandlesTooOld,
    /// Acknowledges before it handles.
    AcknowledgesFirst,
}

#[derive(Debug, Clone)]
struct Delivery {
    id: MessageId,
    text: String,
}

#[derive(Debug, Default)]
struct Partition {
    records: Vec<Delivery>,
    /// The first record that is not acknowledged.
    next: usize,
    /// Whether a member has its next record.
    is_read: bool,
}

/// One member at a time reads a partition.
#[derive(Debug, Default)]
struct Broker([Mutex<Partition>; PARTITIONS]);

impl Broker {
    fn partition_of(&self, key: &str) -> &Mutex<Partition> {
        &self.0[key.bytes().map(usize::from).sum::<usize>() % PARTITIONS]
    }

    /// The next record of a partition that nobody reads.
    fn take(&self) -> Option<(usize, Delivery)> {
        self.0.iter().enumerate().find_map(|(index, partition)| {
            let mut partition = partition.lock().expect("no panic");
            let delivery = partition.records.get(partition.next).filter(|_| !partition.is_read)?.clone();
            partition.is_read = true;
            Some((index, delivery))
        })
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Partition)) {
        change(&mut self.0[index].lock().expect("no panic"));
    }
}

pub(super) struct Own {
    folder: TempDir,
    broker: Arc<Broker>,
    inbox: Inbox,
    mistake: Mistake,
}

/// Ends in the background if it is dropped.
pub(super) struct Member {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Handler(String),
    #[error(transparent)]
    Inbox(#[from] InboxError),
    #[error(transparent)]
    Database(#[from] Error),
}

type Handle = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

struct Worker {
    conn: SqliteConnection,
    inbox: Inbox,
    handle: Handle,
    mistake: Mistake,
    handled: HashSet<MessageId>,
}

impl Own {
    pub(super) fn making(mistake: Mistake) -> Self {
        let inbox = Inbox::builder("billing").build().expect("build");
        let own = Self { folder: tempfile::tempdir().expect("a folder"), broker: Arc::default(), inbox, mistake };
        let mut conn = own.connect();
        own.inbox.migrate(&mut conn).expect("migrate");
        conn.batch_execute("CREATE TABLE effects (text text NOT NULL); CREATE TABLE marks (id text PRIMARY KEY)")
            .expect("tables");
        own
    }

    fn connect(&self) -> SqliteConnection {
        let file = self.folder.path().join("billing.db");
        let mut conn = SqliteConnection::establish(file.to_str().expect("a plain path")).expect("open");
        conn.batch_execute(SQLITE_PRAGMAS).expect("set up");
        conn
    }
}

impl ConsumerUnderTest for Own {
    type Member = Member;

    fn send(&self, records: &[(MessageId, String, String)]) {
        for (id, key, text) in records {
            let mut partition = self.broker.partition_of(key).lock().expect("no panic");
            partition.records.push(Delivery { id: *id, text: text.clone() });
        }
    }

    fn start(&self, handle: Handle) -> Member {
        let (conn, inbox, mistake) = (self.connect(), self.inbox.clone(), self.mistake);
        let mut worker = Worker { conn, inbox, handle, mistake, handled: HashSet::new() };
        let (broker, ends) = (Arc::clone(&self.broker), Arc::new(AtomicBool::new(false)));
        let of_thread = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            while !of_thread.load(Ordering::SeqCst) {
                match broker.take() {
                    Some((index, delivery)) => worker.process(&broker, index, &delivery),
                    None => std::thread::park_timeout(Duration::from_millis(2)),
                }
            }
        });
        Member { ends, thread: Some(thread) }
    }

    fn effects(&self) -> Vec<String> {
        let query = diesel::dsl::sql::<Text>("SELECT text FROM effects ORDER BY rowid");
        query.load(&mut self.connect()).expect("effects")
    }

    fn shut_down(&self, mut member: Member) {
        member.ends.store(true, Ordering::SeqCst);
        member.thread.take().expect("it runs").join().expect("no panic");
    }

    fn forget_acknowledgements(&self) {
        (0..PARTITIONS).for_each(|index| self.broker.change(index, |partition| partition.next = 0));
    }

    fn prune(&self) {
        self.inbox.prune(&mut self.connect()).expect("prune");
    }
}

impl Worker {
    /// Handles a record, and acknowledges it.
    fn process(&mut self, broker: &Broker, index: usize, delivery: &Delivery) {
        let is_acknowledged = self.mistake == Mistake::AcknowledgesFirst;
        if is_acknowledged {
            broker.change(index, |partition| partition.next += 1);
        }
        let handled = self.transaction(delivery);
        let is_done = handled.is_ok() || matches!(handled, Err(Failed::Inbox(InboxError::TooOld { .. })));
        broker.change(index, |partition| {
            if self.mistake == Mistake::RetriesLater && !is_done {
                partition.records.push(delivery.clone());
                partition.next += 1;
            } else if is_done && !is_acknowledged {
                partition.next += 1;
            }
            partition.is_read = false;
        });
    }

    fn transaction(&mut self, Delivery { id, text }: &Delivery) -> Result<(), Failed> {
        let Self { conn, inbox, handle, mistake, handled } = self;
        let write = |conn: &mut SqliteConnection| {
            diesel::sql_query("INSERT INTO effects (text) VALUES (?)").bind::<Text, _>(text).execute(conn)?;
            handle(text).map_err(Failed::Handler)
        };
        match mistake {
            Mistake::ClaimsNothing => conn.immediate_transaction(write),
            Mistake::RemembersInMemory if handled.contains(id) => Ok(()),
            Mistake::RemembersInMemory => {
                conn.immediate_transaction(write)?;
                handled.insert(*id);
                Ok(())
            }
            Mistake::LooksFirst => {
                let known = diesel::dsl::sql::<Text>("SELECT id FROM marks").load::<String>(conn)?;
                if known.contains(&id.to_string()) {
                    return Ok(());
                }
                conn.immediate_transaction(|conn| {
                    write(conn)?;
                    conn.batch_execute(&format!("INSERT OR IGNORE INTO marks VALUES ('{id}')"))?;
                    Ok(())
                })
            }
            Mistake::ClaimsApart => match conn.immediate_transaction(|conn| inbox.claim(conn, *id))? {
                Claim::New => conn.immediate_transaction(write),
                Claim::Duplicate => Ok(()),
            },
            Mistake::IgnoresErrors => {
                let write = |conn: &mut SqliteConnection| match write(conn) {
                    Err(Failed::Handler(_)) => Ok(()),
                    other => other,
                };
                inbox.once(conn, *id, write).map(drop)
            }
            Mistake::HandlesTooOld => match inbox.once(conn, *id, write) {
                Err(Failed::Inbox(InboxError::TooOld { .. })) => conn.immediate_transaction(write),
                other => other.map(drop),
            },
            Mistake::None | Mistake::RetriesLater | Mistake::AcknowledgesFirst => {
                inbox.once(conn, *id, write).map(drop)
            }
        }
    }
}

/// Without a mistake.
mod passes_on_sqlite {
    use super::{Mistake, Own};

    fn open() -> Option<Own> {
        Some(Own::making(Mistake::None))
    }

    diesel_outbox::consumer_conformance_tests!(open);
}
