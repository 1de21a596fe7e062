//! The drain of an ordered topic in which every tenth key fails again and again, compared with one without failures.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use diesel_outbox::transport::{FailureClass, Outcome, OutcomeSender, Transport, TransportError};
use diesel_outbox::{Envelope, OnFailedKey, Outbox, Topic};
use serde::Serialize;

use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::{CpuMeter, CpuShare};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::{broker, database};

const ROWS: usize = 100_000;
const KEYS: usize = 1_000;
const LANES: u16 = 16;
/// The keys `customer-0`, `customer-10` and so on.
const EVERY: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Serialize)]
struct Leg {
    /// For the keys that do not fail.
    messages_per_second: f64,
    counters: std::collections::BTreeMap<String, u64>,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    let (mut unblocked, mut with_blocked, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds(3) {
        let topic = format!("blocked-{round}");
        broker::make_topics(&env.kafka, &[&topic]).await?;
        let mut rates = Vec::new();
        for blocks in [false, true, false] {
            let (leg, cpu) = drain(env, recorder, &topic, rows, blocks).await?;
            leg_log.leg(if blocks { "every tenth key blocked" } else { "none blocked" }, cpu, &leg)?;
            rates.push(leg.messages_per_second);
        }
        let baseline = f64::midpoint(rates[0], rates[2]);
        shares.push(rates[1] / baseline);
        unblocked.push(baseline);
        with_blocked.push(rates[1]);
        broker::delete_topic(&env.kafka, &topic).await?;
    }
    Ok(vec![
        Figure::new("ordered drain, 1,000 keys, none blocked", "msg/s", unblocked, Target::None),
        Figure::new("ordered drain, the other 900 keys, 100 blocked", "msg/s", with_blocked, Target::None),
        Figure::new("throughput of the others, share of none blocked", "", shares, Target::AtLeast(0.8)),
    ])
}

async fn drain(env: &BenchEnv, recorder: &Recorder, topic: &str, rows: usize, blocks: bool) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    database::fill_keyed(&env.postgres, topic, rows as i64, PAYLOAD_BYTES, KEYS, Some(LANES)).await?;
    let ordered = Topic::new(topic).ordered_by_key().lanes(LANES).on_failed_key(OnFailedKey::BlockKey);
    let outbox = Outbox::builder().topic(ordered).build().context("build the outbox")?;
    recorder.reset();
    let inner = application::kafka(&env.kafka)?;
    let transport = Blocking { inner, blocks };
    let expected = if blocks { rows - rows.div_ceil(EVERY) } else { rows };
    let (cpu, started) = (CpuMeter::start(env.root)?, Instant::now());
    let relay = application::start_relay(&outbox, &env.postgres, transport).await?;
    application::delivered(recorder, expected as u64, TIMEOUT).await?;
    let (elapsed, cpu) = (started.elapsed(), cpu.stop()?);
    ensure!(relay.flush(TIMEOUT).await.is_settled() || blocks, "the relay did not settle everything it sent");
    application::stop_relay(relay).await;
    let (left, blocked) = (database::rows_left(&env.postgres).await?, (rows - expected) as i64);
    ensure!(left == blocked, "{left} rows are left of {blocked} that were blocked");
    Ok((Leg { messages_per_second: expected as f64 / elapsed.as_secs_f64(), counters: recorder.counts() }, cpu))
}

/// A transport that fails for some keys, as if its broker were too slow for them.
#[derive(Debug)]
struct Blocking<T> {
    inner: T,
    blocks: bool,
}

fn is_blocked(envelope: &Envelope) -> bool {
    let number = envelope.key.as_deref().and_then(|key| key.strip_prefix("customer-")?.parse::<usize>().ok());
    number.is_some_and(|number| number.is_multiple_of(EVERY))
}

#[async_trait]
impl<T: Transport> Transport for Blocking<T> {
    fn delivery_timeout(&self) -> Duration {
        self.inner.delivery_timeout()
    }
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.inner.prepare(topics).await
    }
    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        if self.blocks && is_blocked(&envelope) {
            let error = TransportError::new(FailureClass::Temporary, "blocked by the bench");
            sender.complete(Outcome::Failed(error));
        } else {
            self.inner.send(envelope, sender);
        }
    }
    async fn probe(&self) -> Result<(), TransportError> {
        self.inner.probe().await
    }
    fn outage(&self) -> Option<FailureClass> {
        self.inner.outage()
    }
    async fn flush(&self, within: Duration) -> usize {
        self.inner.flush(within).await
    }
}
