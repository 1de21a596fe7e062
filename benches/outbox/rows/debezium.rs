//! The same backlog, from one server into one broker, by Debezium and by a relay.

use anyhow::{Context, Result};
use serde::Serialize;
use xtask::results::short;

use super::drain;
use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{Place, Plan};
use crate::cpu::CpuShare;
use crate::debezium::Debezium;
use crate::reader::Reader;
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};
use crate::sides::{SideMeter, SideTimes, Sides};
use crate::{broker, database};

const ROWS: usize = 300_000;
/// Rows in a transaction, as an outbox is written.
const ONE: usize = 1;
/// How Debezium is faster: who reads the log pays for each transaction.
const MANY: usize = 100;

/// Who drains a backlog.
#[derive(Debug, Clone, Copy)]
enum Contestant {
    Debezium { per_transaction: usize },
    Relay,
}

const LEGS: [Contestant; 3] =
    [Contestant::Debezium { per_transaction: ONE }, Contestant::Debezium { per_transaction: MANY }, Contestant::Relay];

/// One drain of either.
#[derive(Debug, Serialize)]
struct Leg {
    messages_per_second: f64,
    second_copies: u64,
    /// For a message.
    #[serde(flatten)]
    sides: SideTimes,
}

/// Both have the same rows in a table of the same columns. Where they cannot be counted alike the doubt is Debezium's: its clock
/// starts when its first message is in the topic, that of the relay before it connects; and the relay's goes on until the last
/// row is deleted, where Debezium leaves all rows to somebody else.
pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    let debezium = Debezium::prepare(place).await?;
    let mut legs = LEGS.map(|_| Vec::new());
    for round in 0..plan.rounds(3) {
        // The order turns, so that no leg always follows the same one. Debezium's connector is stopped but for its own legs.
        for step in 0..LEGS.len() {
            let number = (round + step) % LEGS.len();
            let topic = format!("debezium-{round}-{number}");
            broker::make_topics(&place.kafka, &[&topic]).await?;
            let (name, leg, cpu) = match LEGS[number] {
                Contestant::Debezium { per_transaction } => {
                    let drain = debezium.drain(&topic, rows, per_transaction).await?;
                    let messages_per_second = rows as f64 / drain.seconds;
                    let leg = Leg { messages_per_second, second_copies: drain.second_copies, sides: drain.sides };
                    (format!("Debezium, rows a transaction: {per_transaction}"), leg, drain.cpu)
                }
                Contestant::Relay => {
                    let (leg, cpu) = relayed(place, recorder, &topic, rows).await?;
                    ("relay".to_owned(), leg, cpu)
                }
            };
            journal.leg(&name, cpu, &leg)?;
            legs[number].push(leg);
            broker::delete_topic(&place.kafka, &topic).await?;
        }
    }
    figures(rows, &legs)
}

async fn relayed(place: &Place, recorder: &Recorder, topic: &str, rows: usize) -> Result<(Leg, CpuShare)> {
    database::reset(&place.postgres).await?;
    database::fill_by_transactions(&place.postgres, "outbox_messages", topic, rows, PAYLOAD_BYTES, ONE).await?;
    let beside = place.debezium.as_ref().context("a Debezium beside us")?;
    // The relay is in this process.
    let client = std::process::id();
    let sides = SideMeter::start(Sides { database: beside.database_pid, broker: beside.broker_pid, client })?;
    let (drain, cpu) =
        drain::drained(place, recorder, application::outbox(&[topic])?, application::kafka(&place.kafka)?, rows)
            .await?;
    let sides = sides.stop(rows)?;
    let reader = Reader::new(&place.kafka, topic)?;
    let second_copies = tokio::task::block_in_place(|| reader.second_copies(rows, &database::payloads(PAYLOAD_BYTES)))?;
    Ok((Leg { messages_per_second: drain.messages_per_second, second_copies, sides }, cpu))
}

fn figures(rows: usize, legs: &[Vec<Leg>; 3]) -> Result<Vec<Figure>> {
    let [one, hundred, ours] = legs;
    let who = [
        ("Debezium", "connector", one.as_slice()),
        ("Debezium, 100 rows a transaction", "connector", hundred.as_slice()),
        ("relay", "relay and librdkafka", ours.as_slice()),
    ];
    let all = |legs: &[Leg], of: fn(&Leg) -> f64| legs.iter().map(of).collect::<Vec<f64>>();
    let rate = |leg: &Leg| leg.messages_per_second;
    let mut figures = Vec::new();
    for (who, _, legs) in who {
        let what = format!("{who}: drain of {} x 500 B into Kafka", short(rows as f64));
        figures.push(Figure::new(what, "msg/s", all(legs, rate), Floor::None));
    }
    let multiples = |theirs: &[Leg]| ours.iter().zip(theirs).map(|(ours, theirs)| rate(ours) / rate(theirs)).collect();
    figures.push(Figure::new("relay, multiple of Debezium", "", multiples(one), Floor::AtLeast(5.0)));
    let what = "relay, multiple of Debezium, 100 rows a transaction";
    figures.push(Figure::new(what, "", multiples(hundred), Floor::None));
    let processors = std::thread::available_parallelism()?;
    for (who, client, legs) in who {
        let busy = |leg: &Leg| leg.sides.all_us() * leg.messages_per_second / 1e6;
        figures.push(Figure::new(format!("{who}: busy, of {processors}"), "processors", all(legs, busy), Floor::None));
        let mut side = |side: &str, of: fn(&Leg) -> f64| {
            figures.push(Figure::new(format!("{who}: {side}, a message"), "us", all(legs, of), Floor::None));
        };
        side("database", |leg| leg.sides.database_us);
        side("broker", |leg| leg.sides.broker_us);
        side(client, |leg| leg.sides.client_us);
    }
    let copies = |legs: &[Leg]| all(legs, |leg| leg.second_copies as f64);
    let debezium = [copies(one), copies(hundred)].concat();
    figures.push(Figure::new("Debezium, second copies of a leg", "msg", debezium, Floor::None));
    figures.push(Figure::new("relay, second copies of a leg", "msg", copies(ours), Floor::AtMost(0.0)));
    Ok(figures)
}
