//! Every statement on live messages that `Admin` runs, each in a table that has many.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::connection::{Connection, InstrumentationEvent};
use diesel::r2d2::CustomizeConnection;
use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{
    AdminStore, CancelOutcome, KeyInLane, LiveConditions, LiveRange, LiveScan, LiveState, SendNowOutcome, Store,
};

const LEASE: Duration = Duration::from_secs(30);

/// Rows that one read bounds itself to.
pub(super) const ROWS_MAX: usize = 1_000;

/// Steps of so many rows.
const STEPS_AMONG_TIES: usize = 20;

/// Index entries that all calls together read at most. If a step began at the first of its ties, it would be three times as many.
pub(super) const ENTRIES_MAX: usize = 100_000;

/// The statements of a store, with their binds as Diesel shows them.
#[derive(Debug, Clone, Default)]
pub(super) struct StatementLog(Arc<Mutex<Vec<String>>>);

impl<C: Connection> CustomizeConnection<C, diesel::r2d2::Error> for StatementLog {
    fn on_acquire(&self, conn: &mut C) -> Result<(), diesel::r2d2::Error> {
        let log = Arc::clone(&self.0);
        conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { query, .. } = event {
                log.lock().expect("unpoisoned").push(query.to_string());
            }
        });
        Ok(())
    }
}

impl StatementLog {
    /// The texts that name the table of live messages, each with its binds.
    pub(super) fn on(&self, table: &str) -> Vec<(String, String)> {
        let log = self.0.lock().expect("unpoisoned");
        let split = log.iter().filter_map(|query| query.split_once(" -- binds: "));
        split
            .filter(|(text, _)| text.contains(table))
            .map(|(text, binds)| (text.to_owned(), binds.to_owned()))
            .collect()
    }
}

fn scan(topic: &str, range: LiveRange) -> LiveScan {
    LiveScan { topic: topic.into(), range, after: None, until: None }
}

fn conditions(state: Option<LiveState>) -> LiveConditions {
    LiveConditions {
        state,
        key: Some("no such key".into()),
        kind: Some("no such kind".into()),
        header: Some(r#"["tenant","none"]"#.into()),
    }
}

/// Reads each range twice: a page and the next one; the rows that meet conditions, of which there are none, in a bounded scan.
async fn read_ranges(admin: &dyn AdminStore) {
    for (topic, range, state) in [
        ("orders", LiveRange::Unordered, None),
        ("orders", LiveRange::Due, None),
        ("orders", LiveRange::Later, Some(LiveState::Leased)),
        ("orders", LiveRange::Later, Some(LiveState::Delayed)),
        ("orders", LiveRange::Later, Some(LiveState::Retrying)),
        ("payments", LiveRange::Lane(3), Some(LiveState::InLane)),
        ("payments", LiveRange::Lane(3), Some(LiveState::Retrying)),
    ] {
        let mut scan = scan(topic, range);
        for _ in 0..2 {
            let page = admin.live_messages(&scan, &LiveConditions::default(), 100).await.expect("live messages");
            assert_eq!(page.len(), 100, "{scan:?}");
            let end = admin.live_scan_end(&scan, ROWS_MAX).await.expect("the end").expect("there are more");
            assert_eq!(end.rows, ROWS_MAX);
            let bounded = LiveScan { until: Some(end.last), ..scan.clone() };
            let found = admin.live_messages(&bounded, &conditions(state), 100).await.expect("live messages");
            assert_eq!(found, []);
            scan.after = Some(end.last);
        }
    }
}

/// Goes far among rows that became due at the same instant: each step has to begin where the last one ended.
async fn read_ties(admin: &dyn AdminStore) {
    let mut scan = scan("orders", LiveRange::Due);
    for _ in 0..STEPS_AMONG_TIES {
        let end = admin.live_scan_end(&scan, ROWS_MAX).await.expect("the end").expect("there are more");
        scan.after = Some(end.last);
        let page = admin.live_messages(&scan, &LiveConditions::default(), 10).await.expect("live messages");
        assert_eq!(page.len(), 10);
    }
}

async fn read_keys(admin: &dyn AdminStore) {
    let lane = admin.next_lane(&"payments".into(), 1).await.expect("a lane").expect("there are lanes");
    assert_eq!(admin.next_lane(&"payments".into(), 16).await.expect("a lane"), None);
    let payments = scan("payments", LiveRange::Lane(lane));
    let page = admin.live_messages(&payments, &LiveConditions::default(), ROWS_MAX).await.expect("live messages");
    let middle = page.last().expect("a row");
    let key = KeyInLane { topic: "payments".into(), lane, key: "no such key".into(), id: middle.id };
    let neighbours = admin.key_neighbours(&key, 100).await.expect("neighbours");
    assert!(neighbours.more && neighbours.behind == 0);
}

/// One message by its id, which no index of PostgreSQL and SQLite has, and what is done to it.
async fn read_and_write_one(admin: &dyn AdminStore, message: MessageId) {
    assert!(admin.find_live(message).await.expect("a live message").is_some());
    assert_eq!(admin.find_live(MessageId::new()).await.expect("a live message"), None);
    assert_eq!(admin.send_now(message, LEASE, None).await.expect("send now"), Some(SendNowOutcome::Due));
    assert_eq!(admin.cancel_delayed(message, None).await.expect("cancel"), CancelOutcome::NotFound);
    let cancelled = admin.cancel_waiting(message, LEASE, None).await.expect("cancel");
    assert_eq!(cancelled, CancelOutcome::Cancelled { topic: "orders".into() });
}

/// Runs every statement. The table has messages of `orders` in every state, and of `payments` in 16 lanes.
pub(super) async fn call_all(store: &dyn Store) {
    let admin = store.admin().expect("admin operations");
    read_ranges(admin).await;
    read_ties(admin).await;
    read_keys(admin).await;
    let topics = admin.live_topics(10).await.expect("topics");
    assert_eq!(topics.iter().map(|topic| &**topic).collect::<Vec<_>>(), ["orders", "payments"]);
    let counted = admin.count_live(&"orders".into(), ROWS_MAX).await.expect("count");
    assert!(counted.due.more && counted.leased.more && !counted.in_lanes.more, "{counted:?}");
    let counted = admin.count_live(&"payments".into(), ROWS_MAX).await.expect("count");
    assert!(counted.in_lanes.more && !counted.due.more, "{counted:?}");
    let hour = Duration::from_secs(3_600);
    let now = admin.now().await.expect("now");
    let due = admin.count_due(&"orders".into(), now - 2 * hour, now + 48 * hour, ROWS_MAX).await.expect("count");
    assert_eq!(due, ROWS_MAX);
    let later = scan("orders", LiveRange::Later);
    let found = admin.live_messages(&later, &LiveConditions::default(), 1).await.expect("live messages");
    read_and_write_one(admin, found[0].message_id).await;
}
