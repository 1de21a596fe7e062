//! What a broker answers that has just started, or has just become the leader.

use std::thread;

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Answer};
use tokio::runtime::Runtime;

use super::bed::{Bed, Broker, DEADLINE, On, Place, numbers};
use crate::outbox::databases::SqliteFile;
use crate::transport::broker::unique_name;

/// What a member of the group asks before it has its first record. The mock cluster ends the process where it refuses the others and a member
/// joins twice (librdkafka 2.12.1).
const REQUESTS: [Api; 3] = [Api::OffsetFetch, Api::ListOffsets, Api::Fetch];

const ANSWERS: [Answer; 5] = [
    Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
    Answer::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
    Answer::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
    Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    Answer::RD_KAFKA_RESP_ERR_NO_ERROR,
];

const RECORDS: i32 = 30;

/// A refused beginning once counted as the end: the consumer skipped all that was there.
#[test]
fn no_record_is_skipped_on_sqlite_whatever_a_broker_answers_first() {
    let runtime = Runtime::new().expect("a runtime");
    thread::scope(|scope| {
        for seed in 0..12 {
            let runtime = &runtime;
            let start = move || {
                let _entered = runtime.enter();
                start_against_refusals(seed);
            };
            // A panic names its thread.
            thread::Builder::new().name(format!("seed {seed}")).spawn_scoped(scope, start).expect("a thread");
        }
    });
}

fn start_against_refusals(seed: u64) {
    let kafka = MockCluster::new(1).expect("a cluster");
    let (topic, file) = (unique_name("refused"), SqliteFile::fresh());
    kafka.create_topic(&topic, 3, 1).expect("a topic");
    let bootstrap = kafka.bootstrap_servers();
    let (broker, database_url) = (Broker::Kafka, file.url());
    let place = Place { on: On::Sqlite, database_url, broker, bootstrap, topic, partitions: 3 };
    let bed = Bed::with(place, Some(file));
    bed.place.send(numbers(0..RECORDS));
    let mut random = fastrand::Rng::with_seed(seed);
    for request in REQUESTS {
        let answers: Vec<Answer> = (0..random.usize(..5)).map(|_| random.choice(ANSWERS).expect("some")).collect();
        kafka.request_errors(request, &answers);
    }
    let running = bed.place.start(bed.place.consumer(), |_| Ok(()));
    bed.place.wait_for_effects(usize::try_from(RECORDS).expect("few"));
    bed.place.assert_once_in_order(RECORDS);
    let report = running.shutdown_blocking(DEADLINE);
    assert!(report.is_clean(), "{report:?}");
}
