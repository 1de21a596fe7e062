//! The application's consumer of one of its topics. It counts the events of each account.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use diesel::sql_types::Binary;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, Record, RunningConsumer};
use diesel_outbox::retry::Exponential;
use diesel_outbox::transport::KafkaConfig;
use tokio::time::sleep;

use super::{ACCOUNT_EVENTS, Bug, Config};

/// The group, as the runbooks name it.
const GROUP: &str = "billing";
const WORKERS: usize = 8;
/// Records fail for longer than the alert on that needs.
const ATTEMPTS_MAX: u32 = 1_000;

/// A release that is too slow for the load.
const SLOW_FOR: Duration = Duration::from_secs(5);
/// The key whose records a bad release refuses.
const REFUSED: &[u8] = b"key-0";
/// With every event, one call of so many fails.
const FAILS_EVERY: u64 = 10;

pub(super) fn start(config: &Config) -> Result<RunningConsumer> {
    let url = format!("{}?application_name=billing", config.consumer_url);
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(url)).max_size(WORKERS + 1);
    let pool = pool.build().context("create the consumer's pool")?;
    // Shorter than the defaults where an alert, or the next member, would have to wait for them.
    let kafka =
        KafkaConfig::new(&config.bootstrap).set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "1000");
    let consumer = KafkaConsumer::new(kafka, GROUP)
        .topic(ACCOUNT_EVENTS)
        .workers(WORKERS)
        .retry(Exponential::new(Duration::from_millis(500), Duration::from_secs(1)))
        .attempts_max(ATTEMPTS_MAX);
    let (bug, calls) = (config.bug, AtomicU64::new(0));
    let consumer = consumer.start_async(pool, async move |conn: &mut AsyncPgConnection, record: &Record| {
        let is_unlucky = calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(FAILS_EVERY);
        match bug {
            Some(Bug::FailingHandler) => return Err(HandlerError::retriable("a bug in the handler")),
            Some(Bug::RefusingHandler) if record.key() == Some(REFUSED) => {
                return Err(HandlerError::permanent("a bug in the handler"));
            }
            Some(Bug::EveryEvent) if is_unlucky => return Err(HandlerError::retriable("bad luck")),
            Some(Bug::SlowHandler) => sleep(SLOW_FOR).await,
            _ => {}
        }
        let count = diesel::sql_query(
            "INSERT INTO accounts (account, events) VALUES ($1, 1)
             ON CONFLICT (account) DO UPDATE SET events = accounts.events + 1",
        );
        count.bind::<Binary, _>(record.key().unwrap_or_default()).execute(conn).await?;
        Ok(())
    });
    consumer.context("start the consumer")
}
