use std::sync::Arc;
use std::time::Duration;

use crate::message::MessageId;

/// A consumer of your own on top of [`Inbox`](crate::inbox::Inbox), with its broker and its database, as the conformance suite needs it.
///
/// [`consumer_conformance_tests!`](crate::consumer_conformance_tests) makes a `#[test]` for each rule, and opens one of these for each: a
/// topic, a group and a database of its own. A test that fails drops the members that run, which should end them.
///
/// This one reads a vector, on SQLite:
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use diesel::connection::SimpleConnection as _;
/// use diesel::prelude::*;
/// use diesel::sql_types::Text;
/// use diesel_outbox::MessageId;
/// use diesel_outbox::inbox::{Inbox, InboxError};
/// use diesel_outbox::testing::ConsumerUnderTest;
///
/// /// What was sent, and how much of it is acknowledged.
/// type Broker = Arc<(Mutex<Vec<(MessageId, String)>>, AtomicUsize)>;
///
/// struct Mine {
///     broker: Broker,
///     /// Only one member reads at a time.
///     reading: Arc<Mutex<()>>,
///     inbox: Inbox,
///     database: tempfile::TempPath,
/// }
///
/// fn connect(database: &std::path::Path) -> SqliteConnection {
///     let mut conn = SqliteConnection::establish(database.to_str().expect("a plain path")).expect("open");
///     conn.batch_execute(diesel_outbox::store::SQLITE_PRAGMAS).expect("set up");
///     conn
/// }
///
/// impl ConsumerUnderTest for Mine {
///     type Member = (Arc<AtomicBool>, std::thread::JoinHandle<()>);
///
///     fn send(&self, records: &[(MessageId, String, String)]) {
///         let texts = records.iter().map(|(id, _key, text)| (*id, text.clone()));
///         self.broker.0.lock().unwrap().extend(texts);
///     }
///
///     fn start(&self, handle: Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>) -> Self::Member {
///         let (broker, reading, inbox) = (Arc::clone(&self.broker), Arc::clone(&self.reading), self.inbox.clone());
///         let (mut conn, ends) = (connect(&self.database), Arc::new(AtomicBool::new(false)));
///         let of_thread = Arc::clone(&ends);
///         let run = move || while !of_thread.load(Ordering::SeqCst) {
///             let turn = reading.lock();
///             let next = broker.1.load(Ordering::SeqCst);
///             let record = broker.0.lock().unwrap().get(next).cloned();
///             let Some((id, text)) = record else {
///                 drop(turn);
///                 std::thread::park_timeout(Duration::from_millis(5));
///                 continue;
///             };
///             let once = inbox.once(&mut conn, id, |conn| {
///                 let insert = diesel::sql_query("INSERT INTO effects (text) VALUES (?)");
///                 insert.bind::<Text, _>(&text).execute(conn).map_err(|error| error.to_string())?;
///                 handle(&text).map_err(Failed)
///             });
///             // A copy is done, and one that is too old is for a person.
///             if once.is_ok() || once.is_err_and(|failed| failed.0.contains("older entries are removed")) {
///                 broker.1.store(next + 1, Ordering::SeqCst);
///             }
///         };
///         (ends, std::thread::spawn(run))
///     }
///
///     fn effects(&self) -> Vec<String> {
///         let query = diesel::dsl::sql::<Text>("SELECT text FROM effects ORDER BY rowid");
///         query.load(&mut connect(&self.database)).expect("effects")
///     }
///
///     fn shut_down(&self, (ends, thread): Self::Member) {
///         ends.store(true, Ordering::SeqCst);
///         thread.join().expect("no panic");
///     }
///
///     fn forget_acknowledgements(&self) {
///         self.broker.1.store(0, Ordering::SeqCst);
///     }
///
///     fn prune(&self) {
///         self.inbox.prune(&mut connect(&self.database)).expect("prune");
///     }
/// }
///
/// struct Failed(String);
///
/// impl From<String> for Failed {
///     fn from(text: String) -> Self { Self(text) }
/// }
/// impl From<InboxError> for Failed {
///     fn from(error: InboxError) -> Self { Self(error.to_string()) }
/// }
/// impl From<diesel::result::Error> for Failed {
///     fn from(error: diesel::result::Error) -> Self { Self(error.to_string()) }
/// }
///
/// pub fn open() -> Option<Mine> {
///     let inbox = Inbox::builder("billing").build().expect("build");
///     let database = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
///     let mut conn = connect(&database);
///     inbox.migrate(&mut conn).expect("migrate");
///     conn.batch_execute("CREATE TABLE effects (text text NOT NULL)").expect("a table");
///     Some(Mine { broker: Broker::default(), reading: Arc::default(), inbox, database })
/// }
///
/// diesel_outbox::consumer_conformance_tests!(open);
/// # pub fn run() {
/// #     use diesel_outbox::testing::consumer::{cases, run_case};
/// #     run_case(cases::copies_have_one_effect, open);
/// #     run_case(cases::a_failed_handler_leaves_nothing, open);
/// # }
/// # }
/// # #[cfg(feature = "sqlite")]
/// # example::run();
/// ```
pub trait ConsumerUnderTest: Sync {
    /// A running member of the group.
    type Member: Send;

    /// Sends records: the message's id, the key, and the payload, which is a few digits. Returns when the broker has all.
    fn send(&self, records: &[(MessageId, String, String)]);

    /// Starts a member. Its handler writes the payload to a table, in the transaction of the claim; then it calls `handle` with it, and
    /// fails if that fails. A record that failed is tried again at once, at least three times.
    #[expect(clippy::type_complexity, reason = "an alias would be a public name for one argument")]
    fn start(&self, handle: Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>) -> Self::Member;

    /// The payloads in that table, in the order in which they were written.
    fn effects(&self) -> Vec<String>;

    /// Ends a member as a deployment does, and waits for its end.
    fn shut_down(&self, member: Self::Member);

    /// Makes the broker forget what the group has acknowledged, so that it delivers everything again; no member runs. To the next one
    /// that is what a crash between COMMIT and acknowledgement leaves.
    fn forget_acknowledgements(&self);

    /// Prunes the inbox ([`Inbox::prune`](crate::inbox::Inbox::prune)).
    fn prune(&self);

    /// How long everything that a case sends may take.
    fn max_wait(&self) -> Duration {
        Duration::from_secs(60)
    }
}
