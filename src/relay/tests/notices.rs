//! Notices between relays, and how the listener reconnects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::World;
use super::lanes::{owned, world};
use crate::clock::Clock;
use crate::lane::lane_of;
use crate::limits::{
    LANES, NOTICE_CHECK_INTERVAL, NOTICE_ECHO_TIMEOUT, NOTICE_INTERVAL, NOTICE_RETRY_MAX, NOTICE_RETRY_MIN,
};
use crate::naming::TableNames;
use crate::store::{
    Claim, ClaimSpec, Confirmed, Failed, Held, HistoryStore, LaneStore, Locking, MemoryStore, NewDeadLetter,
    NoticeStore, NoticeStream, PollResult, PollSpec, RowKey, RowRef, Store, StoreError, StoreWarning, TopicBacklog,
};

/// A store that passes notices on to itself unless it is deaf or down.
#[derive(Debug, Clone)]
struct NotifyingStore {
    store: MemoryStore,
    channel: Arc<Mutex<Channel>>,
}

#[derive(Debug, Default)]
struct Channel {
    is_down: bool,
    drops_notices: bool,
    listened_at: Vec<Instant>,
    /// When a relay's notices to itself came.
    echoed_at: Vec<Instant>,
    notified_at: Vec<Instant>,
    subscriber: Option<mpsc::UnboundedSender<String>>,
}

#[derive(Debug)]
struct Subscription(mpsc::UnboundedReceiver<String>);

#[async_trait]
impl NoticeStream for Subscription {
    async fn next(&mut self) -> Result<String, StoreError> {
        self.0.recv().await.ok_or_else(|| StoreError::Unreachable("the line is cut".into()))
    }
}

#[async_trait]
impl NoticeStore for NotifyingStore {
    async fn notify(&self, notices: &[String]) -> Result<(), StoreError> {
        let mut channel = self.channel.lock().unwrap();
        for notice in notices {
            let at = if notice.starts_with('=') { &mut channel.echoed_at } else { &mut channel.notified_at };
            at.push(Instant::now());
            if let Some(subscriber) = channel.subscriber.as_ref().filter(|_| !channel.drops_notices) {
                // Sending fails only if the relay has ended.
                let _ = subscriber.send(notice.clone());
            }
        }
        Ok(())
    }

    async fn listen(&self) -> Result<Box<dyn NoticeStream>, StoreError> {
        let mut channel = self.channel.lock().unwrap();
        channel.listened_at.push(Instant::now());
        if channel.is_down {
            return Err(StoreError::Unreachable("as the test says".into()));
        }
        let (subscriber, receiver) = mpsc::unbounded_channel();
        channel.subscriber = Some(subscriber);
        Ok(Box::new(Subscription(receiver)))
    }
}

#[async_trait]
impl Store for NotifyingStore {
    fn name(&self) -> &'static str {
        "test"
    }

    fn use_tables(&mut self, names: &TableNames) {
        self.store.use_tables(names);
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.store.check().await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        self.store.confirm(refs).await
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        self.store.remaining(refs).await
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        self.store.claim(spec).await
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        self.store.settle(rows, locking).await
    }

    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        self.store.settle_dead_letters(rows).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        self.store.extend(held, lease).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        self.store.fail(failed).await
    }

    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        self.store.dead_letter(dead).await
    }

    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError> {
        self.store.poll(spec).await
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        self.store.backlog(count_max).await
    }

    fn lanes(&self) -> &dyn LaneStore {
        self.store.lanes()
    }

    fn history(&self) -> &dyn HistoryStore {
        self.store.history()
    }

    fn notices(&self) -> Option<&dyn NoticeStore> {
        Some(self)
    }
}

impl NotifyingStore {
    fn of(world: &World, channel: Channel) -> Self {
        Self { store: world.store.clone(), channel: Arc::new(Mutex::new(channel)) }
    }

    fn channel<T>(&self, change: impl FnOnce(&mut Channel) -> T) -> T {
        change(&mut self.channel.lock().unwrap())
    }
}

/// The pauses between these instants.
fn pauses(at: &[Instant]) -> Vec<Duration> {
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Timers count in whole milliseconds.
fn is_about(pause: Duration, expected: Duration) -> bool {
    pause >= expected && pause <= expected + Duration::from_millis(2)
}

#[tokio::test(start_paused = true)]
async fn commits_to_lanes_of_others_are_collected_for_an_interval() {
    let world = world();
    let other = world.neighbour();
    let store = NotifyingStore::of(&world, Channel::default());
    let relay = world.relay().store(store.clone()).start().await.unwrap();
    let neighbour = other.start().await;
    let half = usize::from(LANES / 2);
    world.until("each owns a half", || owned(&relay) == half && owned(&neighbour) == half).await;
    let elsewhere: Vec<u16> = {
        let status = neighbour.status();
        status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).map(|lane| lane.lane).collect()
    };
    let key = (0_u32..).map(|key| key.to_string()).find(|key| elsewhere.contains(&lane_of(key, LANES))).unwrap();
    let (began, commits) = (Instant::now(), 1_000);
    for _ in 0..commits {
        let row = world.commit_keyed(&key);
        world.hand_over_keyed(row, &key, true);
        sleep(Duration::from_millis(1)).await;
    }
    let most = (began.elapsed().as_millis() / NOTICE_INTERVAL.as_millis()) as usize + 2;
    world.drained().await;
    let notified = store.channel(|channel| std::mem::take(&mut channel.notified_at));
    assert!(pauses(&notified).iter().all(|pause| *pause >= NOTICE_INTERVAL), "{:?}", pauses(&notified));
    assert!((most / 2..=most).contains(&notified.len()), "{} notices of {commits} commits", notified.len());
}

#[tokio::test(start_paused = true)]
async fn notice_connections_are_retried_ever_less_often_up_to_a_bound() {
    let world = world();
    let store = NotifyingStore::of(&world, Channel { is_down: true, ..Channel::default() });
    let _relay = world.relay().store(store.clone()).start().await.unwrap();
    sleep(NOTICE_RETRY_MAX * 10).await;
    let waits = pauses(&store.channel(|channel| channel.listened_at.clone()));
    assert!(waits.len() > 10, "{waits:?}");
    let mut expected = NOTICE_RETRY_MIN;
    for pause in &waits {
        assert!(is_about(*pause, expected), "{waits:?}");
        expected = (expected * 2).min(NOTICE_RETRY_MAX);
    }
    assert_eq!(expected, NOTICE_RETRY_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_relay_sends_itself_notices_and_reconnects_if_none_arrives() {
    let world = world();
    let store = NotifyingStore::of(&world, Channel::default());
    let _relay = world.relay().store(store.clone()).start().await.unwrap();
    sleep(NOTICE_CHECK_INTERVAL * 5 + Duration::from_secs(1)).await;
    let checks = pauses(&store.channel(|channel| channel.echoed_at.clone()));
    assert!(checks.len() == 5 && checks.iter().all(|pause| is_about(*pause, NOTICE_CHECK_INTERVAL)), "{checks:?}");
    store.channel(|channel| channel.drops_notices = true);
    world.until("it is found out", || store.channel(|channel| channel.listened_at.len() > 1)).await;
    let (echoed_at, anew) = store.channel(|channel| (channel.echoed_at.clone(), channel.listened_at[1]));
    let last_echo = echoed_at.into_iter().rfind(|at| *at < anew).unwrap();
    assert!(is_about(anew - last_echo, NOTICE_ECHO_TIMEOUT + NOTICE_RETRY_MIN), "{:?}", anew - last_echo);
}
