//! From the relay to Debezium and back, while the application goes on: no loss, and copies only where the page says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diesel::connection::{Connection as _, SimpleConnection as _};
use diesel::sql_types::{Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl as _, sql_query};
use diesel_outbox::transport::header::MESSAGE_ID;
use diesel_outbox::{Message, MessageId, Outbox};
use uuid::Uuid;

use super::{Bed, block, count};
use crate::consumer::bed::wait_until;
use crate::transport::broker;

#[derive(QueryableByName)]
struct Moment {
    #[diesel(sql_type = Text)]
    moment: String,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
}

/// Something that goes on until it is ended.
struct Background {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Background {
    fn start(mut step: impl FnMut() + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                step();
            }
        });
        Self { ends, thread }
    }

    fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it did not fail");
    }
}

/// The ids that were committed, in order.
#[derive(Clone, Default)]
struct Committed(Arc<Mutex<Vec<MessageId>>>);

impl Committed {
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn all(&self) -> Vec<MessageId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wait_for_more(&self, more: usize) {
        let wanted = self.len() + more;
        wait_until("more messages are committed", || self.len() >= wanted);
    }
}

fn write(bed: &Bed, outbox: &Outbox, committed: &Committed) -> Background {
    let (mut conn, outbox, committed, topic) = (bed.conn(), outbox.clone(), committed.clone(), bed.topic.clone());
    let mut next = 0_u32;
    Background::start(move || {
        next += 1;
        let message = Message::to(topic.clone()).key((next % 50).to_string()).payload_bytes(next.to_string());
        let id = conn.transaction(|conn| outbox.enqueue(conn, &message)).expect("commit");
        committed.0.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        thread::park_timeout(Duration::from_millis(2));
    })
}

/// Calls the page's procedure again and again. A call that the test cancels is no failure.
fn remove_sent(bed: &Bed) -> Background {
    let mut conn = bed.conn();
    conn.batch_execute("SET application_name = 'remover'").expect("name");
    Background::start(move || {
        if let Err(error) = conn.batch_execute("CALL outbox_remove_sent('outbox')") {
            assert!(error.to_string().contains("canceling statement"), "{error}");
        }
    })
}

fn now(conn: &mut PgConnection) -> String {
    sql_query("SELECT clock_timestamp()::text AS moment").get_result::<Moment>(conn).expect("the time").moment
}

fn rows(conn: &mut PgConnection) -> BTreeSet<MessageId> {
    let rows = sql_query("SELECT message_id FROM outbox_messages").load::<Row>(conn).expect("rows");
    rows.into_iter().map(|row| row.message_id.into()).collect()
}

fn copies(bed: &Bed) -> BTreeMap<MessageId, usize> {
    let mut copies = BTreeMap::new();
    for (_, record) in broker::read(&bed.bootstrap, &bed.topic) {
        let (_, id) = record.headers.iter().find(|(name, _)| name == MESSAGE_ID).expect("a message id");
        let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).expect("a message id");
        *copies.entry(id).or_default() += 1;
    }
    copies
}

#[tokio::test(flavor = "multi_thread")]
async fn to_debezium_and_back_nothing_is_lost_and_each_copy_is_explained() {
    let Some(bed) = Bed::open().await else { return };
    let (mut conn, outbox, committed) = (bed.conn(), bed.outbox(), Committed::default());
    conn.batch_execute(&block("sql", "outbox_remove_sent")).expect("the procedure");
    let relay = bed.relay(&outbox).await;
    let writer = write(&bed, &outbox, &committed);
    committed.wait_for_more(300);

    let both_from = committed.len();
    let connector = bed.connect();
    let active_at = now(&mut conn);
    committed.wait_for_more(100);
    let older = format!("outbox_messages WHERE created_at < '{active_at}'");
    wait_until("the relay has sent what is older than the slot", || count(&mut conn, &older) == 0);
    assert!(relay.shutdown(Duration::from_secs(30)).await.is_clean());
    let both_to = committed.len();

    let remover = remove_sent(&bed);
    committed.wait_for_more(1_000);
    let first = committed.all()[both_to + 10];
    wait_until("sent rows are removed", || !rows(&mut conn).contains(&first));
    connector.stop().expect("it stops");
    bed.wait_for_slot("NOT active");
    committed.wait_for_more(100);
    remover.ends.store(true, Ordering::Relaxed);
    conn.batch_execute(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'remover' AND state = 'active'",
    )
    .expect("cancel");
    remover.end();
    let left = rows(&mut conn);

    let relay = bed.relay(&outbox).await;
    committed.wait_for_more(100);
    writer.end();
    bed.wait_until_empty();
    assert!(relay.shutdown(Duration::from_secs(30)).await.is_clean());

    let (all, copies) = (committed.all(), copies(&bed));
    let lost: Vec<_> = all.iter().filter(|id| !copies.contains_key(id)).collect();
    assert!(lost.is_empty(), "{} of {} messages are lost", lost.len(), all.len());
    assert_eq!(copies.len(), all.len(), "nothing else is in the topic");
    let doubled = |id: &&MessageId| copies[*id] > 1;
    let by_both = all[both_from..both_to].iter().filter(doubled).count();
    let after_return = all.iter().filter(doubled).filter(|id| left.contains(id)).count();
    let all_doubled = all.iter().filter(doubled).count();
    eprintln!(
        "{} messages; sent twice: {by_both} while both ran, {after_return} of {} left rows",
        all.len(),
        left.len()
    );
    assert!(by_both >= 100, "both sent what was enqueued while both ran: {by_both}");
    assert_eq!(all_doubled, by_both + after_return, "a copy that the page does not explain");
    assert!(copies.values().all(|copies| *copies <= 2));
}

/// Without the slot, the procedure cannot know what is sent.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_slot_the_procedure_removes_nothing() {
    let Some(url) = crate::outbox::databases::fresh_postgres() else { return };
    let mut conn = PgConnection::establish(&url).expect("connect");
    conn.batch_execute(&block("sql", "outbox_remove_sent")).expect("the procedure");
    let outbox = crate::outbox::outbox();
    outbox.enqueue(&mut conn, &crate::outbox::order(1)).expect("enqueue");
    let error = conn.batch_execute("CALL outbox_remove_sent('outbox')").expect_err("no slot");
    assert!(error.to_string().contains("query returned no rows"), "{error}");
    assert_eq!(count(&mut conn, "outbox_messages"), 1);
}
