//! Single messages to a distant broker that leads many partitions: with the defaults, and with fewer requests in flight. librdkafka
//! sends one request for each partition.

use std::time::Duration;

use anyhow::Result;
use rdkafka::mocking::MockCluster;

use crate::arguments::{BenchEnv, Plan};
use crate::broker::BareProducer;
use crate::load::TOPIC;
use crate::open_loop::{self, OpenLoop};
use crate::report::{Figure, LegLog, Target};

/// To a broker that waits for two replicas in other zones.
const ROUND_TRIP: Duration = Duration::from_millis(3);
const PARTITIONS: i32 = 48;
const PER_SECOND: f64 = 1_000.0;
/// The first is the default of an idempotent producer.
const IN_FLIGHT: [&str; 3] = ["5", "2", "1"];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let cluster = MockCluster::new(1)?;
    cluster.broker_round_trip_time(1, ROUND_TRIP)?;
    cluster.create_topic(TOPIC, PARTITIONS, 1)?;
    let of = OpenLoop { per_second: PER_SECOND, duration: plan.duration(10.0), keys: usize::MAX, lanes: 0 };
    let mut waits = IN_FLIGHT.map(|_| Vec::new());
    for _ in 0..plan.rounds(3) {
        for (in_flight, waits) in IN_FLIGHT.into_iter().zip(&mut waits) {
            let settings = [("max.in.flight.requests.per.connection", in_flight)];
            let producer = BareProducer::new(&cluster.bootstrap_servers(), TOPIC, of.messages(), &settings)?;
            let (leg, cpu) = open_loop::bare(env, producer, of).await?;
            leg_log.leg(&format!("{in_flight} in flight"), cpu, &leg)?;
            waits.push(leg.waits_us);
        }
    }
    let mut figures = Vec::new();
    for (in_flight, waits) in IN_FLIGHT.into_iter().zip(&waits) {
        for percentile in ["p50", "p99"] {
            let samples = waits.iter().map(|waits| waits.at(percentile)).collect();
            let name = format!("send to ack, 48 partitions 3 ms away, {in_flight} in flight, {percentile}");
            figures.push(Figure::new(name, "us", samples, Target::None));
        }
    }
    Ok(figures)
}
