//! The start of the service, what its requests share, and its end.

use std::future::Future;
use std::time::Duration;

use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig};
use diesel_async::{AsyncConnection, SimpleAsyncConnection};
use diesel_outbox::admin::Admin;
use diesel_outbox::relay::{Relay, RelayHandle, ShutdownReport};
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{KafkaConfig, KafkaTransport, Transport};
use diesel_outbox::{Outbox, Topic};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::orders::{Db, OrderPlaced, TOPIC, make_tables};
use crate::web;

/// How long what was committed may take to be sent when the service ends. Kubernetes, say, kills after 30 s.
const GRACE: Duration = Duration::from_secs(20);

/// What requests share. A clone is cheap.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) pool: Pool<Db>,
    pub(crate) outbox: Outbox,
    pub(crate) admin: Admin,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) relay: RelayHandle,
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Failure> {
    let setting = |name: &str| std::env::var(name).map_err(|_| format!("set {name}"));
    tracing_subscriber::fmt().with_env_filter("info").with_writer(std::io::stderr).init();
    // Before anything is counted.
    let metrics = exporter()?.install_recorder()?;
    // Before the first request, so that no signal is missed.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let kafka = KafkaTransport::new(KafkaConfig::new(setting("SHOP_KAFKA")?))?;
    let (service, relay) = Service::start(&setting("SHOP_DATABASE")?, outbox()?, kafka, metrics).await?;
    let listener = TcpListener::bind(setting("SHOP_LISTEN")?).await?;
    println!("listening on {}", listener.local_addr()?);
    let report = serve(service, relay, listener, stop).await?;
    // What is left is in the table: the relay of another process sends it, or that of the next start.
    println!("ended: {} left in the queue, {} in flight", report.queued, report.in_flight);
    Ok(())
}

/// With buckets for the outbox's histograms: summaries of several processes could not be added up.
pub(crate) fn exporter() -> Result<PrometheusBuilder, BuildError> {
    let mut histograms = diesel_outbox::metrics::ALL.iter().filter(|metric| !metric.buckets.is_empty());
    histograms.try_fold(PrometheusBuilder::new(), |exporter, histogram| {
        exporter.set_buckets_for_metric(Matcher::Full(histogram.name.to_owned()), histogram.buckets)
    })
}

pub(crate) fn outbox() -> Result<Outbox, Failure> {
    Ok(Outbox::builder().topic(Topic::new(TOPIC)).message::<OrderPlaced>().build()?)
}

/// Serves until `stop` is over, ends what requests have begun, and then the relay.
pub(crate) async fn serve(
    service: Service,
    relay: Relay,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownReport, Failure> {
    axum::serve(listener, web::router(service)).with_graceful_shutdown(stop).await?;
    Ok(relay.shutdown(GRACE).await)
}

impl Service {
    pub(crate) async fn start(
        database: &str,
        outbox: Outbox,
        transport: impl Transport,
        metrics: PrometheusHandle,
    ) -> Result<(Self, Relay), Failure> {
        let pool = pool(database, 8)?;
        let mut conn = pool.get().await?;
        make_tables(&mut conn).await?;
        for migration in outbox.migrate_async(&mut conn).await? {
            tracing::info!(migration, "ran");
        }
        drop(conn);
        // The relay has connections of its own: those of requests may all be taken.
        let relay =
            outbox.relay().store(SqliteStore::new(pool_of_relay(database)?)).transport(transport).start().await?;
        let admin = outbox.admin(SqliteStore::new(pool.clone()));
        let service = Self { pool, outbox, admin, metrics, relay: relay.handle() };
        Ok((service, relay))
    }
}

fn pool(database: &str, connections: usize) -> Result<Pool<Db>, Failure> {
    let mut config = ManagerConfig::<Db>::default();
    // SQLite alone needs a set-up of each connection.
    config.custom_setup = Box::new(|database| {
        Box::pin(async move {
            let mut conn = Db::establish(database).await?;
            let set_up = conn.batch_execute(SQLITE_PRAGMAS).await;
            set_up.map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(conn)
        })
    });
    let manager = AsyncDieselConnectionManager::new_with_config(database, config);
    Ok(Pool::builder(manager).max_size(connections).build()?)
}

fn pool_of_relay(database: &str) -> Result<Pool<Db>, Failure> {
    Ok(Pool::builder(AsyncDieselConnectionManager::new(database)).max_size(2).build()?)
}
