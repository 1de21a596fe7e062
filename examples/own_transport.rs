//! A transport of one's own: no broker, but a function of the application that sends mails. Needs no server.
//!
//! ```sh
//! cargo run --example own_transport
//! cargo test --example own_transport
//! ```
//!
//! The second command runs the conformance suite (feature `testing`) on the transport: a test for each requirement of a relay.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

use std::collections::HashSet;
use std::error::Error;
use std::sync::mpsc::{SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{FailureClass, InFlightCounter, Outcome, OutcomeSender, Transport, TransportError};
use diesel_outbox::{Envelope, Message, Outbox, Topic, async_trait};

type Failure = Box<dyn Error + Send + Sync>;

/// How long a message may wait for the function and be in it. Below the lease of 30 s, or two nodes would work on it.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(25);

/// Hands messages to a function, one after the other on a thread of its own.
#[derive(Debug)]
struct FunctionTransport {
    queue: SyncSender<(Envelope, OutcomeSender, Instant)>,
    in_flight: InFlightCounter,
}

impl FunctionTransport {
    fn new(handle: impl Fn(&Envelope) -> Result<(), TransportError> + Send + 'static) -> Self {
        let (queue, messages) = sync_channel::<(Envelope, OutcomeSender, Instant)>(10_000);
        // Ends with the transport, which holds the other end of the queue.
        thread::spawn(move || {
            for (envelope, sender, sent_at) in messages {
                let late = || TransportError::new(FailureClass::Temporary, "the function is too slow");
                let result = if sent_at.elapsed() < DELIVERY_TIMEOUT { handle(&envelope) } else { Err(late()) };
                sender.complete(result.map_or_else(Outcome::Failed, |()| Outcome::Delivered));
            }
        });
        Self { queue, in_flight: InFlightCounter::new() }
    }
}

#[async_trait]
impl Transport for FunctionTransport {
    fn delivery_timeout(&self) -> Duration {
        DELIVERY_TIMEOUT
    }

    async fn prepare(&self, _topics: &[Topic]) -> Result<(), TransportError> {
        Ok(())
    }

    /// Never blocks: a full queue is told to the relay, which waits.
    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        let sender = sender.tracked_by(&self.in_flight);
        match self.queue.try_send((envelope, sender, Instant::now())) {
            Err(TrySendError::Full((_, sender, _))) => sender.complete(Outcome::Busy),
            // Without its thread: an outcome sender that is dropped reports a failure by itself.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    async fn probe(&self) -> Result<(), TransportError> {
        Ok(())
    }

    async fn flush(&self, within: Duration) -> usize {
        self.in_flight.wait_until_none(within).await
    }
}

/// A mailer that is busy when it is first asked for Bob, and never knows Mallory.
#[derive(Debug, Default)]
struct Mailer {
    sent: Vec<String>,
    requested: HashSet<String>,
}

impl Mailer {
    fn send(&mut self, address: &str) -> Result<(), TransportError> {
        let first = self.requested.insert(address.to_owned());
        match address {
            // Spends an attempt, and is repeated by the topic's policy.
            "bob" if first => Err(TransportError::new(FailureClass::Record, "mailbox busy")),
            // Given up: the message becomes a dead letter.
            "mallory" => Err(TransportError::new(FailureClass::RecordRefused, "no such mailbox")),
            _ => {
                self.sent.push(address.to_owned());
                Ok(())
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db").to_string_lossy().into_owned();
    let mut conn = SqliteConnection::establish(&file)?;
    conn.batch_execute(SQLITE_PRAGMAS)?;

    let mailer = Arc::new(Mutex::new(Mailer::default()));
    let post = Arc::clone(&mailer);
    let (handled, attempts) = channel();
    let transport = FunctionTransport::new(move |envelope| {
        let address = envelope.key.as_deref().unwrap_or_default();
        let sent = post.lock().expect("no mail panics").send(address);
        // Nobody waits for more than the attempts below.
        let _ = handled.send(());
        sent
    });
    let outbox = Outbox::builder().topic(Topic::new("mails").retry(Fixed::seconds(&[1]))).build()?;
    outbox.migrate(&mut conn)?;
    let pool = Pool::builder().max_size(2).build(ConnectionManager::<SqliteConnection>::new(&*file))?;
    let relay = outbox.relay().store(SqliteStore::new(pool)).transport(transport).start_blocking()?;

    conn.immediate_transaction(|conn| {
        let mails =
            ["alice", "bob", "carol", "mallory"].map(|to| Message::to("mails").key(to).payload_bytes("Welcome!"));
        outbox.enqueue_all(conn, mails)
    })?;
    // Two for bob, and two for mallory: what was refused is tried once more alone, without neighbours to blame.
    for _ in 0..6 {
        attempts.recv_timeout(Duration::from_secs(15))?;
    }
    let report = relay.shutdown(Duration::from_secs(5))?;
    assert!(report.is_clean(), "{report:?}");

    let dead = count(&mut conn, "outbox_dead_letters")?;
    let sent = mailer.lock().expect("no mail panics").sent.join(", ");
    println!("Mails were sent to {sent}: bob's at its second attempt. Dead letters: {dead}, mallory's.");
    assert_eq!((&*sent, dead, count(&mut conn, "outbox_messages")?), ("alice, carol, bob", 1, 0));
    Ok(())
}

fn count(conn: &mut SqliteConnection, table: &str) -> QueryResult<i64> {
    diesel::dsl::sql::<diesel::sql_types::BigInt>(&format!("SELECT count(*) FROM {table}")).get_result(conn)
}

#[cfg(test)]
mod tests {
    use diesel_outbox::testing::{StoredMessage, TransportUnderTest};

    use super::*;

    /// What the suite needs: it opens the transport and reads the messages that it sent.
    #[derive(Default)]
    struct UnderTest(Arc<Mutex<Vec<Envelope>>>);

    #[async_trait]
    impl TransportUnderTest for UnderTest {
        fn transport(&self) -> Box<dyn Transport> {
            let came = Arc::clone(&self.0);
            Box::new(FunctionTransport::new(move |envelope| {
                came.lock().expect("no push panics").push(envelope.clone());
                Ok(())
            }))
        }

        async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
            let came = self.0.lock().expect("no push panics");
            came.iter().filter(|envelope| &*envelope.topic == topic).map(StoredMessage::of).collect()
        }
    }

    async fn open() -> Option<UnderTest> {
        Some(UnderTest::default())
    }

    // The cases that do not apply are left out: there is no broker that could fail, and no fencing. Cases of a later version
    // are not left out, so they fail until somebody has decided about them.
    diesel_outbox::transport_conformance_tests! { open; without
        only_oversized_messages_are_refused,
        unknown_topic_is_a_topic_failure,
        full_queue_is_busy,
        authentication_failure_hides_secrets,
        stopped_broker_is_an_outage_until_restarted,
        frozen_broker_times_out_every_message,
        send_never_blocks,
        dropping_the_transport_fails_held_messages,
        fencing_a_lane_shuts_out_the_previous_owner,
        fenced_lane_keeps_the_order_of_a_sequence,
        refused_message_stops_only_its_own_sequence,
        exactly_once_lane_sends_no_row_twice,
    }
}
