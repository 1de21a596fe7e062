//! What people do to messages while relays run, through every failure of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::admin::{Admin, AdminError, DeadLetterFilter, RedriveRate, SendNowOutcome};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::{MessageId, Outbox};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::truth::REFUSED_AT_FIRST;
use crate::wire::{Config, Topics};

/// The longest that one action may take.
const TIMEOUT: Duration = Duration::from_secs(8);
/// The delay before another attempt to resume a topic.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The driver's requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum AdminAction {
    Redrive,
    Pause(i16),
    Resume,
}

/// The actions, by the names of their counts.
pub(crate) const ADMIN_ACTIONS: [&str; 3] = ["(letters redriven)", "(topics paused)", "(messages sent now)"];

/// How often each action was done, as far as the database confirmed it.
#[derive(Debug, Default)]
struct Done {
    redriven: AtomicU64,
    paused: AtomicU64,
    sent_now: AtomicU64,
}

/// The actions of an application, one after the other, so that a topic is never paused after its resume.
#[derive(Debug)]
pub(super) struct AdminActions {
    admin: Admin,
    queue: UnboundedSender<AdminAction>,
    done: Arc<Done>,
}

impl AdminActions {
    pub(super) fn start(config: &Config, outbox: &Outbox) -> Result<Self> {
        let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(&config.database_url));
        let pool = pool.max_size(2).build().context("create the pool of the admin actions")?;
        let lease = Duration::from_millis(config.times.lease_ms);
        let admin = outbox.admin(PostgresStore::new(pool)).lease_duration(lease);
        let (queue, actions) = unbounded_channel();
        let done = Arc::<Done>::default();
        tokio::spawn(run_actions(actions, admin.clone(), config.topics.clone(), Arc::clone(&done)));
        Ok(Self { admin, queue, done })
    }

    pub(super) fn submit(&self, action: AdminAction) {
        // The receiving task ends only with the process.
        let _ = self.queue.send(action);
    }

    /// Sends a delayed message early. If it was sent already, or the database is down, it is sent when it is due.
    pub(super) async fn send_now(&self, message: MessageId) {
        if let Ok(Ok(SendNowOutcome::Due)) = timeout(TIMEOUT, self.admin.send_now(message)).await {
            self.done.sent_now.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> [(String, u64); 3] {
        let Done { redriven, paused, sent_now } = &*self.done;
        let [of_letters, of_topics, of_messages] = ADMIN_ACTIONS.map(ToOwned::to_owned);
        [(of_letters, redriven), (of_topics, paused), (of_messages, sent_now)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

async fn run_actions(mut actions: UnboundedReceiver<AdminAction>, admin: Admin, topics: Topics, done: Arc<Done>) {
    while let Some(action) = actions.recv().await {
        match action {
            AdminAction::Redrive => redrive(&admin, &topics, &done).await,
            AdminAction::Pause(topic) => {
                if let Ok(Ok(())) = timeout(TIMEOUT, admin.pause(topics.name(topic))).await {
                    done.paused.fetch_add(1, Ordering::Relaxed);
                }
            }
            AdminAction::Resume => {
                for (_, topic) in topics.all() {
                    resume(&admin, topic).await;
                }
            }
        }
    }
}

/// A message that could not be redriven stays dead, and another redrive finds it.
async fn redrive(admin: &Admin, topics: &Topics, done: &Done) {
    let filter = DeadLetterFilter::new().topic(topics.name(crate::wire::PLAIN)).kind(REFUSED_AT_FIRST);
    let rate = RedriveRate::default().rows_max(20).per_second(100);
    let mut before = 0;
    let count = |so_far: usize| {
        done.redriven.fetch_add((so_far - before) as u64, Ordering::Relaxed);
        before = so_far;
    };
    let _ = timeout(TIMEOUT, admin.redrive_all(&filter, rate, count)).await;
}

async fn resume(admin: &Admin, topic: &str) {
    while !matches!(timeout(TIMEOUT, admin.resume(topic)).await, Ok(Ok(()) | Err(AdminError::NotPaused { .. }))) {
        sleep(RETRY_DELAY).await;
    }
}
