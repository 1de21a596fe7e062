//! Messages that two processes enqueue side by side, each of a kind that says what becomes of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diesel::connection::Connection;
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{Message, MessageId, OnFailedKey, Outbox, OutboxBackend, Topic};
use tokio::task::{JoinHandle, spawn_blocking};

use super::fixture::{ACCOUNTS, PAYMENTS};

const HOUR: Duration = Duration::from_secs(3_600);

/// Whose refused messages wait for an hour.
const RETURNS: &str = "returns";

const ROUNDS: usize = 30;
/// Messages of each kind: two enqueue one in each round.
pub(super) const EACH: usize = 2 * ROUNDS;

/// Kinds say what becomes of a message. The broker takes this one at once, on two topics.
pub(super) const TAKEN: &str = "taken";
/// These are refused twice, and are dead each time: by which way they are sent again.
pub(super) const ONE_BY_ONE: &str = "one_by_one";
pub(super) const BY_FILTER: &str = "by_filter";
pub(super) const RETRIED: &str = "retried";
pub(super) const ALL_AT_ONCE: &str = "all_at_once";
/// Waits for its delivery time; or refused once, for the next attempt.
pub(super) const DELAYED: &str = "delayed";
pub(super) const WAITING: &str = "waiting";
pub(super) const RETRIED_WAITING: &str = "retried_waiting";

pub(super) const FIRST: &[&str] =
    &[TAKEN, ONE_BY_ONE, BY_FILTER, RETRIED, ALL_AT_ONCE, DELAYED, TAKEN, WAITING, RETRIED_WAITING];
pub(super) const SECOND: &[&str] = &[TAKEN, TAKEN];

pub(super) fn refusals(kind: &str) -> usize {
    match kind {
        ONE_BY_ONE | BY_FILTER | RETRIED | ALL_AT_ONCE => 2,
        WAITING | RETRIED_WAITING => 1,
        _ => 0,
    }
}

/// Rows belong to who enqueued them for longer than a busy machine holds anybody up: a second copy would then be in order.
pub(super) fn outbox() -> Outbox {
    let plain = |name| Topic::new(name).staleness(Duration::from_secs(120));
    let accounts = Topic::new(ACCOUNTS).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter);
    Outbox::builder()
        .topic(plain(PAYMENTS).attempts_max(1))
        .topic(plain(RETURNS).attempts_max(3).retry(Fixed::from(vec![HOUR])))
        .topic(accounts.attempts_max(1))
        .allow_outside_transaction()
        .build()
        .expect("an outbox")
}

pub(super) struct Placed {
    pub(super) id: MessageId,
    pub(super) kind: &'static str,
    /// On the ordered topic.
    key: Option<String>,
}

/// What was enqueued, each behind what the same connection enqueued before.
#[derive(Clone, Default)]
pub(super) struct PlacedLog(Arc<Mutex<Vec<Placed>>>);

impl PlacedLog {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Placed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages of some kinds that are not delivered yet.
    pub(super) fn missing(&self, kinds: &[&str], broker: &MemoryTransport) -> Vec<MessageId> {
        let delivered: HashSet<MessageId> = broker.delivered().iter().map(|sent| sent.message_id).collect();
        let placed = self.lock();
        let of = placed.iter().filter(|placed| kinds.contains(&placed.kind) && !delivered.contains(&placed.id));
        of.map(|placed| placed.id).collect()
    }

    /// The messages of each key that nothing held up, in the order of their commits.
    pub(super) fn in_order(&self) -> HashMap<String, Vec<MessageId>> {
        let mut by_key: HashMap<String, Vec<MessageId>> = HashMap::new();
        for placed in self.lock().iter().filter(|placed| placed.kind == TAKEN) {
            by_key.entry(placed.key.clone().unwrap_or_default()).or_default().push(placed.id);
        }
        by_key.remove("");
        by_key
    }
}

fn message(kind: &str, topic: &str, key: &str) -> Message {
    let to = |topic: &str| Message::to(topic).kind(kind).key(key);
    match kind {
        DELAYED => to(PAYMENTS).delay(HOUR),
        WAITING | RETRIED_WAITING => to(RETURNS),
        _ => to(topic),
    }
}

/// Enqueues round after round; keys are its own, so that each has an order.
pub(super) fn load<C>(
    outbox: &Outbox,
    mut conn: C,
    by: usize,
    kinds: &'static [&'static str],
    book: &PlacedLog,
) -> JoinHandle<C>
where
    C: Connection + 'static,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, book) = (outbox.clone(), book.clone());
    spawn_blocking(move || {
        for round in 0..ROUNDS {
            for (place, kind) in kinds.iter().copied().enumerate() {
                // Of what is taken, one goes to each of the two; the others take turns.
                let turn = if kind == TAKEN { usize::from(place == 0) } else { round };
                let (topic, key) = ([PAYMENTS, ACCOUNTS][turn % 2], format!("{by}-{}", round % 5));
                let id = enqueue(&outbox, &mut conn, &message(kind, topic, &key));
                book.lock().push(Placed { id, kind, key: Some(key).filter(|_| topic == ACCOUNTS) });
            }
        }
        conn
    })
}

/// As an application does it whose database has it begin again: MariaDB reports a deadlock over the table's counter in words of
/// its own (MDEV-33593).
fn enqueue<C>(outbox: &Outbox, conn: &mut C, message: &Message) -> MessageId
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    for _ in 0..10 {
        match outbox.enqueue(conn, message) {
            Ok(id) => return id,
            Err(error)
                if ["Deadlock found", "auto-increment value"].iter().any(|of| error.to_string().contains(of)) => {}
            Err(error) => panic!("enqueue: {error}"),
        }
    }
    panic!("a deadlock each time")
}

pub(super) fn refuse(broker: &MemoryTransport) {
    let mut refused: HashMap<MessageId, usize> = HashMap::new();
    broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), move |sent| {
        let so_far = refused.entry(sent.message_id).or_default();
        *so_far += 1;
        *so_far <= refusals(&sent.kind)
    });
}
