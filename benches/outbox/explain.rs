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

const TIMEOUT: Duration = Duration::from_secs(20);
/// Runs, of which the last counts: the first ones set hint bits and fill caches.
const RUNS: usize = 3;

/// The statements of a claim: the BEGIN with its settings, and the one that locks due rows.
#[derive(Debug, Clone)]
pub(crate) struct ClaimSql {
    begin: String,
    text: String,
}

/// The statement of a poll.
#[derive(Debug, Clone)]
pub(crate) struct PollSql(String);

/// The cost of one execution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    /// Shared buffers, hit or read.
    pub(crate) touched: f64,
    pub(crate) milliseconds: f64,
}

/// Captures a relay's statements while it claims something: a copy written down here would soon be outdated.
pub(crate) async fn capture_statements(url: &str) -> Result<(ClaimSql, PollSql)> {
    const TOPIC: &str = "seen";
    let captured = Arc::new(Mutex::new(CapturedStatements::default()));
    let outbox = application::outbox(&[TOPIC])?;
    database::reset(url).await?;
    database::fill(url, TOPIC, 1, 1, 0).await?;
    let relay =
        outbox.relay().store(PostgresStore::new(capturing_pool(url, &captured)?)).transport(MemoryTransport::new());
    let relay = relay.start().await.context("start the relay")?;
    let both = || {
        let captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
        Some((captured.claim.clone()?, captured.poll.clone()?))
    };
    let both = application::until(both, TIMEOUT).await;
    application::stop_relay(relay).await;
    both.context("the relay polls and claims due rows")
}

#[derive(Debug, Default)]
struct CapturedStatements {
    claim: Option<ClaimSql>,
    poll: Option<PollSql>,
}

/// A pool whose connections capture the poll, the statement that locks due rows, and the BEGIN before it.
fn capturing_pool(url: &str, captured: &Arc<Mutex<CapturedStatements>>) -> Result<Pool<AsyncPgConnection>> {
    let mut config = ManagerConfig::<AsyncPgConnection>::default();
    let captured = Arc::clone(captured);
    config.custom_setup = Box::new(move |url| {
        let (url, captured) = (url.to_owned(), Arc::clone(&captured));
        async move {
            let mut conn = AsyncPgConnection::establish(&url).await?;
            let mut begin = String::new();
            conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
                let InstrumentationEvent::StartQuery { query, .. } = event else { return };
                let text = query.to_string();
                let without_binds = || text.split(" -- binds:").next().unwrap_or_default().to_owned();
                if text.starts_with("BEGIN") {
                    begin = text;
                } else if text.contains("due_at <= statement_timestamp()") && text.contains("SKIP LOCKED") {
                    let claim = ClaimSql { begin: begin.clone(), text: without_binds() };
                    captured.lock().unwrap_or_else(PoisonError::into_inner).claim = Some(claim);
                } else if text.contains("LEFT JOIN LATERAL") && text.contains("due_at > coalesce") {
                    captured.lock().unwrap_or_else(PoisonError::into_inner).poll = Some(PollSql(without_binds()));
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

/// The position that the first due row gives a relay's watermark.
async fn first_due(conn: &mut AsyncPgConnection, topic: &str) -> Result<String> {
    #[derive(QueryableByName)]
    struct First {
        #[diesel(sql_type = Text)]
        due_at: String,
    }
    let query = "SELECT min(due_at)::text AS due_at FROM outbox_messages WHERE topic = $1 AND lane = -1";
    Ok(sql_query(query).bind::<Text, _>(topic).get_result::<First>(conn).await?.due_at)
}

impl ClaimSql {
    /// Runs the claim with its own settings and a relay's default limits, and rolls it back. It starts at the watermark
    /// of a working relay, or at the beginning.
    pub(crate) async fn explain(&self, conn: &mut AsyncPgConnection, topic: &str, is_at_work: bool) -> Result<Pages> {
        let limits = Limits::default();
        let slack = limits.watermark_slack_duration.as_secs();
        let after = if is_at_work { first_due(conn, topic).await? } else { "-infinity".to_owned() };
        let after = format!("'{after}'::timestamptz - interval '{slack} seconds'");
        // Planned for the value, as with the settings of a claim; the rest of the text is unchanged.
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
            last = Some(plan);
        }
        pages_of(&last.context("it ran")?)
    }
}

impl PollSql {
    /// Runs the poll from the watermark of a working relay, or from the beginning.
    pub(crate) async fn explain(&self, conn: &mut AsyncPgConnection, topic: &str, is_at_work: bool) -> Result<Pages> {
        let limits = Limits::default();
        let slack = limits.watermark_slack_duration.as_secs();
        let after = if is_at_work { first_due(conn, topic).await? } else { "-infinity".to_owned() };
        let after = format!("ARRAY['{after}'::timestamptz - interval '{slack} seconds']");
        let ahead = limits.poll_interval.as_millis();
        let text = self.0.replace("$1", &format!("ARRAY['{topic}']")).replace("$2", &after);
        let text = text.replace("$3", "ARRAY[NULL::bigint]").replace("$4", &ahead.to_string());
        let mut last = None;
        for _ in 0..RUNS {
            last = Some(sql_query(format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}")).get_result(conn).await?);
        }
        pages_of(&last.context("it ran")?)
    }
}

fn pages_of(plan: &Plan) -> Result<Pages> {
    let plan: serde_json::Value = serde_json::from_str(&plan.json)?;
    let number = |of: &serde_json::Value, name: &str| of[name].as_f64().with_context(|| format!("{name} in the plan"));
    let root = &plan[0]["Plan"];
    let touched = number(root, "Shared Hit Blocks")? + number(root, "Shared Read Blocks")?;
    Ok(Pages { touched, milliseconds: number(&plan[0], "Execution Time")? })
}
