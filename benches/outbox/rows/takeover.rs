//! From `kill -9` of a lane's owner to the first acknowledgement of a message that the remaining node sent from that
//! lane. On an ordered topic the next owner waits for what the dead one had in flight; on a fenced topic it does not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use diesel_async::AsyncConnection as _;
use diesel_outbox::transport::Transport as _;
use diesel_outbox::{Outbox, lane_of};
use serde::Serialize;

use crate::application::{self, OrderPlaced};
use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::relay_process::{LANES, RelayProcess, Role};
use crate::report::{Figure, LegLog, Target};
use crate::timed::{Instants, Timed};

const TIMEOUT: Duration = Duration::from_secs(120);

/// A topic whose owner is killed.
#[derive(Debug, Clone, Copy)]
struct Kind {
    role: Role,
    /// A topic for each: the broker remembers the lanes of a fenced one.
    topic: &'static str,
    leg: &'static str,
    what: &'static str,
    bound: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        role: Role::OrderedFastTakeover,
        topic: "takeover",
        leg: "take-over",
        what: "kill -9 of the owner to the next message of its lane",
        bound: "lane lease + poll + delivery time-out + margin",
    },
    Kind {
        role: Role::FencedFastTakeover,
        topic: "takeover-fenced",
        leg: "take-over, fenced",
        what: "the same, fenced",
        bound: "lane lease + poll",
    },
];

#[derive(Serialize)]
struct Leg {
    seconds: f64,
    bound_seconds: f64,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &KINDS.map(|kind| kind.topic)).await?;
    let mut legs = KINDS.map(|_| Vec::new());
    for _ in 0..plan.rounds(3) {
        for (kind, legs) in KINDS.into_iter().zip(&mut legs) {
            let (leg, cpu) = leg(env, kind).await?;
            leg_log.leg(kind.leg, cpu, &leg)?;
            legs.push(leg);
        }
    }
    let mut figures = Vec::new();
    for (kind, legs) in KINDS.into_iter().zip(&legs) {
        let all = |of: fn(&Leg) -> f64| legs.iter().map(of).collect::<Vec<f64>>();
        let shares = all(|leg| leg.seconds / leg.bound_seconds);
        figures.push(Figure::new(kind.what, "s", all(|leg| leg.seconds), Target::None));
        figures.push(Figure::new(kind.bound, "s", all(|leg| leg.bound_seconds), Target::None));
        figures.push(Figure::new(format!("{}, share of that bound", kind.what), "", shares, Target::AtMost(1.0)));
    }
    Ok(figures)
}

async fn leg(env: &BenchEnv, kind: Kind) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    let topic = || kind.role.topic(kind.topic);
    let limits = application::fast_takeover_limits();
    let outbox = Outbox::builder().topic(topic()).build().context("build the outbox")?;
    let delivered = Instants::default();
    let transport = Timed { inner: application::kafka_with_short_timeout(&env.kafka)?, delivered: delivered.clone() };
    let mut bound = limits.lane_lease_duration + limits.poll_interval;
    if kind.role == Role::OrderedFastTakeover {
        bound += transport.delivery_timeout() + limits.lease_margin_duration;
    }
    let relay = application::start_relay_with(&outbox, &env.postgres, transport, limits).await?;
    let owner = RelayProcess::start(kind.topic, kind.role)?;
    let node = relay.status().node;
    let is_of_another = || {
        let lanes = relay.status().lanes;
        lanes.iter().find(|lane| lane.owner.is_some_and(|owner| owner != node)).map(|lane| lane.lane)
    };
    let lane =
        application::until(is_of_another, TIMEOUT).await.context("the other process takes its share of lanes")?;
    let order_id = (0..).find(|id: &i64| lane_of(&id.to_string(), LANES) == lane).context("a key of the lane")?;
    // Without a relay: nobody is notified of the message, and the lane's owner finds it by a poll.
    let elsewhere = Outbox::builder().topic(topic()).build().context("build the outbox")?;
    let mut conn = database::connect(&env.postgres).await?;
    let event = OrderPlaced { order_id, topic: kind.topic };
    conn.transaction(async |conn| elsewhere.enqueue_async(conn, &event).await).await?;
    database::wait_until_empty(&env.postgres, TIMEOUT).await.context("the owner sends a message of its lane")?;
    let (cpu, killed_at) = (CpuMeter::start(env.root)?, Instant::now());
    owner.kill().await?;
    let message_id = conn.transaction(async |conn| elsewhere.enqueue_async(conn, &event).await).await?;
    let arrived = application::until(|| delivered.at(message_id), TIMEOUT).await.context("the lane is taken over")?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    Ok((Leg { seconds: (arrived - killed_at).as_secs_f64(), bound_seconds: bound.as_secs_f64() }, cpu))
}
