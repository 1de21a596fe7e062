//! An application with a relay, a consumer, metrics and endless transactions, until it is told to end or its drill is gone.

mod consumer;
mod load;
mod rare;
mod transport;
mod web;

use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{NoticeConnection, PostgresStore};
use diesel_outbox::transport::{HttpTarget, HttpTransport, KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{Limits, Outbox, Topic};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use self::transport::BuggyKafka;

/// The variable with the configuration. With it, this program is the application.
pub(crate) const CONFIG: &str = "OUTBOX_DRILL_SHOP";

/// The topics, as the runbooks name them.
pub(crate) const ORDERS: &str = "orders";
pub(crate) const ACCOUNT_EVENTS: &str = "account-events";
pub(crate) const LEDGER: &str = "ledger";
pub(crate) const WEBHOOKS: &str = "order-webhooks";
pub(crate) const RETURNS: &str = "returns";

/// Lanes of the ordered topic, and of the fenced one, each of which has a client.
pub(crate) const LANES: u16 = 8;
const FENCED_LANES: u16 = 2;

/// Where a sweeper's task panics.
const CLAIMED: &str = "sweeper::claimed";

/// The longest orderly shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// What the application is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Config {
    /// As the role of the application.
    pub(crate) database_url: String,
    /// As the role that may only listen.
    pub(crate) notices_url: String,
    /// As the role of the consumer.
    pub(crate) consumer_url: String,
    pub(crate) bootstrap: String,
    /// The URL of the receiver of webhooks.
    pub(crate) receiver: String,
    /// For metrics; the same after a restart, as behind a service.
    pub(crate) port: u16,
    pub(crate) queue_rows_max: usize,
    pub(crate) bug: Option<Bug>,
}

/// What a bad release does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bug {
    /// Its connections have an instrumentation that replaces the commit hook.
    NoHook,
    /// It enqueues first, and then keeps the transaction open.
    SlowTransactions,
    /// A function of its transport panics.
    PanickingCall,
    /// A task of its relay panics.
    PanickingTask,
    /// The handler of its consumer takes long.
    SlowHandler,
    /// The handler fails.
    FailingHandler,
    /// The handler refuses the records of a key for good.
    RefusingHandler,
    /// No bug: it does everything that happens rarely, so that every metric has a value.
    EveryEvent,
}

/// Runs the application.
pub(crate) fn run(config: &str) -> Result<()> {
    let config = serde_json::from_str(config).context("read the configuration")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(serve(config));
    // The read of the standard input goes on until the drill ends.
    runtime.shutdown_background();
    served
}

async fn serve(config: Config) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    let metrics = exporter()?.install_recorder().context("install the exporter")?;
    let mut terminate = signal(SignalKind::terminate())?;
    match config.bug {
        Some(Bug::PanickingTask) => fail::cfg(CLAIMED, "panic(a bug)").map_err(anyhow::Error::msg)?,
        Some(Bug::EveryEvent) => fail::cfg(CLAIMED, "10%panic(a bug)").map_err(anyhow::Error::msg)?,
        _ => {}
    }
    let outbox = outbox()?;
    let pool = pool(&config.database_url)?;
    let relay = relay(&config, &outbox).await?;
    let consumer = consumer::start(&config)?;
    let work = load::Work { outbox, pool, bug: config.bug };
    let web = tokio::spawn(web::serve(config.port, metrics, relay.handle(), work.clone()));
    let load = tokio::spawn(load::run(work.clone()));
    let rare = (config.bug == Some(Bug::EveryEvent)).then(|| tokio::spawn(rare::run(work, config.bootstrap)));
    tokio::select! {
        _ = terminate.recv() => {}
        () = drill_is_gone() => {}
    }
    load.abort();
    rare.inspect(tokio::task::JoinHandle::abort);
    tokio::join!(relay.shutdown(GRACE), consumer.shutdown(GRACE));
    web.abort();
    Ok(())
}

/// The drill holds the other end of the standard input.
async fn drill_is_gone() {
    let mut rest = Vec::new();
    // An error is an end as well.
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
}

/// With the library's buckets, as in the example `axum_service`.
fn exporter() -> Result<PrometheusBuilder, BuildError> {
    let mut histograms = diesel_outbox::metrics::ALL.iter().filter(|metric| !metric.buckets.is_empty());
    histograms.try_fold(PrometheusBuilder::new(), |exporter, histogram| {
        exporter.set_buckets_for_metric(Matcher::Full(histogram.name.to_owned()), histogram.buckets)
    })
}

fn outbox() -> Result<Outbox> {
    let outbox = Outbox::builder()
        .topic(Topic::new(ORDERS).keep_sent_days(1).processed_within(Duration::from_secs(60)))
        .topic(Topic::new(ACCOUNT_EVENTS).ordered_by_key().lanes(LANES))
        .topic(Topic::new(LEDGER).ordered_by_key().lanes(FENCED_LANES).fenced())
        .topic(Topic::new(WEBHOOKS).via("webhooks"))
        .topic(Topic::new(RETURNS).attempts_max(1));
    outbox.build().context("build the outbox")
}

/// The application's own connections.
fn pool(url: &str) -> Result<Pool<AsyncPgConnection>> {
    // A transaction that waits for a lock ends, as in a well-behaved application; otherwise each one keeps a session.
    let url = format!("{url}?application_name=shop&options=-c%20lock_timeout%3D5s%20-c%20statement_timeout%3D10s");
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(url)).max_size(40);
    pool.build().context("create the application's pool")
}

async fn relay(config: &Config, outbox: &Outbox) -> Result<Relay> {
    // Shorter than the defaults where an alert would have to wait for them.
    let limits = Limits::default()
        .queue_rows_max(config.queue_rows_max)
        .lane_lease_duration(Duration::from_secs(5))
        .topic_back_off_duration(Duration::from_secs(2))
        .backlog_interval(Duration::from_millis(500))
        .prune_interval(Duration::from_secs(1));
    let topic = |name: &str| KafkaTopic::new(name).partitions(3).replication(1);
    let topics = [ORDERS, ACCOUNT_EVENTS, LEDGER, RETURNS];
    let kafka = KafkaTransport::builder(KafkaConfig::new(&config.bootstrap));
    let kafka = topics.into_iter().fold(kafka, |kafka, name| kafka.create_topic(topic(name)));
    let kafka = BuggyKafka::new(kafka.build().context("build the Kafka transport")?, config.bug);
    let webhooks = HttpTransport::builder().topic(WEBHOOKS, HttpTarget::new(&config.receiver));
    let store = PostgresStore::connect(format!("{}?application_name=shop-relay", config.database_url))?;
    let store = store.notice_connection(NoticeConnection::new(config.notices_url.as_str()));
    let relay = outbox.relay().store(store).transport(kafka).limits(limits);
    let relay = relay.transport_named("webhooks", webhooks.build().context("build the webhook transport")?);
    let does_everything = config.bug == Some(Bug::EveryEvent);
    let relay = relay.on_dead_letter(move |_letter| assert!(!does_everything, "a bug in a callback"));
    let relay = relay.dead_letter_alert(1, Duration::from_secs(5), |_last| {});
    relay.start().await.context("start the relay")
}
