//! The sweeper's claim as the library sends it, explained by the database.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use diesel::connection::InstrumentationEvent;
use diesel::sql_types::{BigInt, Text};
use diesel::{ConnectionError, QueryableByName, sql_query};
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::Limits;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::MemoryTransport;
use futures_util::FutureExt as _;

use crate::{application, database};

const WITHIN: Duration = Duration::from_secs(20);
/// Runs of which the last counts: the first ones set hint bits and fill caches.
const RUNS: usize = 3;

/// The texts of a claim: the BEGIN with its settings, and what locks due rows.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    begin: String,
    text: String,
}

/// What one took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    /// Shared buffers, found or read.
    pub(crate) touched: f64,
    pub(crate) milliseconds: f64,
}

/// Looks over a relay's shoulder while it claims something: a text written down here would soon be another one.
pub(crate) async fn seen_claim(url: &str) -> Result<Claim> {
    const TOPIC: &str = "seen";
    let seen = Arc::new(Mutex::new(None));
    let outbox = application::outbox(&[TOPIC])?;
    database::reset(url).await?;
    database::fill(url, TOPIC, 1, 1, 0).await?;
    let relay = outbox.relay().store(PostgresStore::new(watched(url, &seen)?)).transport(MemoryTransport::new());
    let relay = relay.start().await.context("start the relay")?;
    let claim = application::until(WITHIN, || seen.lock().unwrap_or_else(PoisonError::into_inner).clone()).await;
    application::stop_relay(relay).await;
    claim.context("the relay claims what is due")
}

/// A pool whose connections note the statement that locks due rows, and the BEGIN before it.
fn watched(url: &str, seen: &Arc<Mutex<Option<Claim>>>) -> Result<Pool<AsyncPgConnection>> {
    let mut config = ManagerConfig::<AsyncPgConnection>::default();
    let seen = Arc::clone(seen);
    config.custom_setup = Box::new(move |url| {
        let (url, seen) = (url.to_owned(), Arc::clone(&seen));
        async move {
            let mut conn = AsyncPgConnection::establish(&url).await?;
            let mut begin = String::new();
            conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
                let InstrumentationEvent::StartQuery { query, .. } = event else { return };
                let text = query.to_string();
                if text.starts_with("BEGIN") {
                    begin = text;
                } else if text.contains("due_at <= statement_timestamp()") && text.contains("SKIP LOCKED") {
                    let text = text.split(" -- binds:").next().unwrap_or_default().to_owned();
                    let claim = Claim { begin: begin.clone(), text };
                    *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim);
                }
            });
            Ok::<_, ConnectionError>(conn)
        }
        .boxed()
    });
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new_with_config(url, config);
    Ok(Pool::builder(manager).max_size(application::RELAY_CONNECTIONS).build()?)
}

#[derive(QueryableByName)]
struct Plan {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    json: String,
}

/// Where a relay's watermark is held by the first row that is due.
async fn first_due(conn: &mut AsyncPgConnection, topic: &str) -> Result<String> {
    #[derive(QueryableByName)]
    struct First {
        #[diesel(sql_type = Text)]
        due_at: String,
    }
    let query = "SELECT min(due_at)::text AS due_at FROM outbox_messages WHERE topic = $1 AND lane = -1";
    Ok(sql_query(query).bind::<Text, _>(topic).get_result::<First>(conn).await?.due_at)
}

impl Claim {
    /// Runs it, with its own settings and the bounds of a relay by default, and takes it back. From the watermark on as it
    /// stands in a relay at work, or of everything.
    pub(crate) async fn explain(&self, conn: &mut AsyncPgConnection, topic: &str, is_at_work: bool) -> Result<Pages> {
        let limits = Limits::default();
        let slack = limits.watermark_slack_duration.as_secs();
        let after = if is_at_work { first_due(conn, topic).await? } else { "-infinity".to_owned() };
        let after = format!("'{after}'::timestamptz - interval '{slack} seconds'");
        // Planned for the value, as with the settings of a claim; the text is otherwise its own.
        let text = self.text.replace("$2", &format!("({after})")).replace("$3", "$2").replace("$4", "$3");
        ensure!(!text.contains("$4"), "the claim has another number of binds");
        let payload_max = limits.claim_bytes_max / limits.claim_rows_max;
        let mut last = None;
        for _ in 0..RUNS {
            conn.batch_execute(&self.begin).await?;
            let explain = sql_query(format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}"));
            let explain = explain.bind::<Text, _>(topic).bind::<BigInt, _>(limits.claim_rows_max as i64);
            let plan: Plan = explain.bind::<BigInt, _>(payload_max as i64).get_result(conn).await?;
            conn.batch_execute("ROLLBACK").await?;
            last = Some(serde_json::from_str::<serde_json::Value>(&plan.json)?);
        }
        let plan = last.context("it ran")?;
        let number =
            |of: &serde_json::Value, name: &str| of[name].as_f64().with_context(|| format!("{name} in the plan"));
        let root = &plan[0]["Plan"];
        let touched = number(root, "Shared Hit Blocks")? + number(root, "Shared Read Blocks")?;
        Ok(Pages { touched, milliseconds: number(&plan[0], "Execution Time")? })
    }
}
