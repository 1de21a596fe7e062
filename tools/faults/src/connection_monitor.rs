//! Counts each relay's connections as the database sees them, including those that a pool has forgotten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::app::now_ms;
use crate::wire::{RELAY_CONNECTIONS, RELAY_NAME};

/// How often they are counted.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A time in which a process had more connections than its relay's pool allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolOverrun {
    pub(crate) process: u32,
    /// Milliseconds since 1970.
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
    /// The most at once.
    pub(crate) most: i64,
}

#[derive(Debug, Default)]
struct Seen {
    /// The most of any process, over its limit or not.
    most: i64,
    /// The processes that are over their limit now.
    open: BTreeMap<u32, PoolOverrun>,
    over: Vec<PoolOverrun>,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionMonitor {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

impl ConnectionMonitor {
    /// Counts in the database of this URL, over its own connection.
    pub(crate) fn count(url: String) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                loop {
                    // It ends with its connection, which happens whenever the database is killed.
                    if let Err(error) = poll(&url, &seen).await {
                        eprintln!("counting connections again: {error:#}");
                    }
                    sleep(POLL_INTERVAL).await;
                }
            }
        });
        Self { task, seen }
    }

    /// The most connections of any process at once.
    pub(crate) fn most(&self) -> i64 {
        lock(&self.seen).most
    }

    /// Every overrun so far.
    pub(crate) fn pool_overruns(&self) -> Vec<PoolOverrun> {
        let seen = lock(&self.seen);
        seen.over.iter().chain(seen.open.values()).cloned().collect()
    }
}

impl Drop for ConnectionMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    /// Records the counts of a moment.
    fn note(&mut self, counts: &BTreeMap<u32, i64>, now_ms: u64) {
        self.most = counts.values().copied().fold(self.most, i64::max);
        let is_over_pool_size = |process: &u32| counts.get(process).is_some_and(|count| *count > RELAY_CONNECTIONS);
        let ended: Vec<u32> = self.open.keys().copied().filter(|process| !is_over_pool_size(process)).collect();
        self.over.extend(ended.into_iter().filter_map(|process| self.open.remove(&process)));
        for (process, count) in counts.iter().filter(|(process, _)| is_over_pool_size(process)) {
            let overrun = PoolOverrun { process: *process, from_ms: now_ms, until_ms: now_ms, most: *count };
            let open = self.open.entry(*process).or_insert(overrun);
            (open.until_ms, open.most) = (now_ms, open.most.max(*count));
        }
    }
}

#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = BigInt)]
    count: i64,
}

async fn poll(url: &str, seen: &Mutex<Seen>) -> Result<()> {
    let mut connection = AsyncPgConnection::establish(url).await?;
    let text = format!(
        "SELECT application_name AS name, count(*) AS count FROM pg_stat_activity \
         WHERE application_name LIKE '{RELAY_NAME}%' GROUP BY 1"
    );
    loop {
        let counted: Vec<Counted> = diesel::sql_query(&text).load(&mut connection).await?;
        let of = |counted: &Counted| Some((counted.name.strip_prefix(RELAY_NAME)?.parse().ok()?, counted.count));
        lock(seen).note(&counted.iter().filter_map(of).collect(), now_ms());
        sleep(POLL_INTERVAL).await;
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overrun_lasts_from_the_first_count_above_the_pool_to_the_last() {
        let mut seen = Seen::default();
        for (at_ms, count) in [(0, 0), (10, 1), (20, 4), (30, 2), (40, 0), (50, 1)] {
            seen.note(&BTreeMap::from([(7, RELAY_CONNECTIONS + count), (8, 2)]), at_ms);
        }
        seen.note(&BTreeMap::new(), 60);
        let overrun =
            |from_ms, until_ms, more| PoolOverrun { process: 7, from_ms, until_ms, most: RELAY_CONNECTIONS + more };
        assert_eq!(seen.over, [overrun(10, 30, 4), overrun(50, 50, 1)]);
        assert!(seen.open.is_empty());
        assert_eq!(seen.most, RELAY_CONNECTIONS + 4);
    }
}
