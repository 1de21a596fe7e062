//! From `kill -9` of the owner of a lane to the first acknowledgement of a message of that lane, which the node that
//! is left sent.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use diesel_outbox::transport::Transport as _;
use diesel_outbox::{Outbox, Topic, lane_of};
use serde::Serialize;

use crate::application::{self, OrderPlaced};
use crate::arguments::{Place, Plan};
use crate::broker;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::relay_process::{LANES, RelayProcess, Role};
use crate::report::{Figure, Floor, Journal};
use crate::timed::{Instants, Timed};

const TOPIC: &str = "takeover";
const WITHIN: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Leg {
    seconds: f64,
    bound_seconds: f64,
}

pub(crate) async fn run(plan: &Plan, place: &Place, journal: &mut Journal) -> Result<Vec<Figure>> {
    broker::make_topics(&place.kafka, &[TOPIC]).await?;
    let (mut waits, mut bounds, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds(3) {
        let (leg, cpu) = leg(place).await?;
        journal.leg("take-over", cpu, &leg)?;
        waits.push(leg.seconds);
        bounds.push(leg.bound_seconds);
        shares.push(leg.seconds / leg.bound_seconds);
    }
    let what = "kill -9 of the owner to the next message of its lane";
    Ok(vec![
        Figure::new(what, "s", waits, Floor::None),
        Figure::new("lane lease + poll + delivery time-out + margin", "s", bounds, Floor::None),
        Figure::new(format!("{what}, share of that bound"), "", shares, Floor::AtMost(1.0)),
    ])
}

async fn leg(place: &Place) -> Result<(Leg, CpuShare)> {
    database::reset(&place.postgres).await?;
    let topic = || Topic::new(TOPIC).ordered_by_key().lanes(LANES);
    let limits = application::quick_to_take_over();
    let outbox = Outbox::builder().topic(topic()).build().context("build the outbox")?;
    let delivered = Instants::default();
    let transport = Timed { inner: application::impatient_kafka(&place.kafka)?, delivered: delivered.clone() };
    let bound =
        limits.lane_lease_duration + limits.poll_interval + transport.delivery_timeout() + limits.term_margin_duration;
    let relay = application::start_relay_with(&outbox, &place.postgres, transport, limits).await?;
    let owner = RelayProcess::start(TOPIC, Role::OrderedAndQuick)?;
    let node = relay.status().node;
    let is_anothers = || {
        let lanes = relay.status().lanes;
        lanes.iter().find(|lane| lane.owner.is_some_and(|owner| owner != node)).map(|lane| lane.lane)
    };
    let lane = application::until(WITHIN, is_anothers).await.context("the other process takes its share of lanes")?;
    let order_id = (0..).find(|id: &i64| lane_of(&id.to_string(), LANES) == lane).context("a key of the lane")?;
    // Without a relay: nobody is told of the message, whoever owns its lane finds it.
    let elsewhere = Outbox::builder().topic(topic()).build().context("build the outbox")?;
    let mut conn = database::connect(&place.postgres).await?;
    let event = OrderPlaced { order_id, topic: TOPIC };
    elsewhere.enqueue_async(&mut conn, &event).await?;
    database::all_gone(&place.postgres, WITHIN).await.context("the owner sends a message of its lane")?;
    let (cpu, killed_at) = (CpuMeter::start(place.root)?, Instant::now());
    owner.kill().await?;
    let message_id = elsewhere.enqueue_async(&mut conn, &event).await?;
    let arrived = application::until(WITHIN, || delivered.at(message_id)).await.context("the lane is taken over")?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    Ok((Leg { seconds: (arrived - killed_at).as_secs_f64(), bound_seconds: bound.as_secs_f64() }, cpu))
}
