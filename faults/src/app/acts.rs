//! What people do to messages beside the running relays, through every failure of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::admin::{Admin, AdminError, DeadFilter, Hastening, RedrivePace};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::{MessageId, Outbox};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::truth::CURABLE;
use crate::wire::{Config, Topics};

/// The longest that one act may take.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long it takes until a topic that could not be resumed is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// What the driver may ask for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Redrive,
    Pause(i16),
    Resume,
}

/// What is done, by the names of its counts.
pub(crate) const ACTS: [&str; 3] = ["(letters redriven)", "(topics paused)", "(messages hastened)"];

/// How often something was done, as far as the database said so.
#[derive(Debug, Default)]
struct Done {
    redriven: AtomicU64,
    paused: AtomicU64,
    hastened: AtomicU64,
}

/// The acts of an application: one after the other, so that a topic is never paused behind its resume.
#[derive(Debug)]
pub(super) struct Acts {
    admin: Admin,
    queue: UnboundedSender<Act>,
    done: Arc<Done>,
}

impl Acts {
    pub(super) fn start(config: &Config, outbox: &Outbox) -> Result<Self> {
        let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(&config.database_url));
        let pool = pool.max_size(2).build().context("make the pool of the acts")?;
        let lease = Duration::from_millis(config.times.lease_ms);
        let admin = outbox.admin(PostgresStore::new(pool)).lease_duration(lease);
        let (queue, acts) = unbounded_channel();
        let done = Arc::<Done>::default();
        tokio::spawn(act(acts, admin.clone(), config.topics.clone(), Arc::clone(&done)));
        Ok(Self { admin, queue, done })
    }

    pub(super) fn order(&self, act: Act) {
        // Its task ends with the process.
        let _ = self.queue.send(act);
    }

    /// Sends a delayed message now. It may have been sent before, or the database is away: then it comes when it is due.
    pub(super) async fn hasten(&self, message: MessageId) {
        if let Ok(Ok(Hastening::Due)) = timeout(PATIENCE, self.admin.send_now(message)).await {
            self.done.hastened.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> [(String, u64); 3] {
        let Done { redriven, paused, hastened } = &*self.done;
        let [of_letters, of_topics, of_messages] = ACTS.map(ToOwned::to_owned);
        [(of_letters, redriven), (of_topics, paused), (of_messages, hastened)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

async fn act(mut acts: UnboundedReceiver<Act>, admin: Admin, topics: Topics, done: Arc<Done>) {
    while let Some(act) = acts.recv().await {
        match act {
            Act::Redrive => redrive(&admin, &topics, &done).await,
            Act::Pause(topic) => {
                if let Ok(Ok(())) = timeout(PATIENCE, admin.pause(topics.name(topic))).await {
                    done.paused.fetch_add(1, Ordering::Relaxed);
                }
            }
            Act::Resume => {
                for (_, topic) in topics.all() {
                    resume(&admin, topic).await;
                }
            }
        }
    }
}

/// What could not be redriven is dead still, and another redrive finds it.
async fn redrive(admin: &Admin, topics: &Topics, done: &Done) {
    let filter = DeadFilter::new().topic(topics.name(crate::wire::PLAIN)).kind(CURABLE);
    let pace = RedrivePace::default().rows_max(20).per_second(100);
    let mut before = 0;
    let count = |so_far: usize| {
        done.redriven.fetch_add((so_far - before) as u64, Ordering::Relaxed);
        before = so_far;
    };
    let _ = timeout(PATIENCE, admin.redrive_all(&filter, pace, count)).await;
}

async fn resume(admin: &Admin, topic: &str) {
    while !matches!(timeout(PATIENCE, admin.resume(topic)).await, Ok(Ok(()) | Err(AdminError::NotPaused { .. }))) {
        sleep(AGAIN).await;
    }
}
