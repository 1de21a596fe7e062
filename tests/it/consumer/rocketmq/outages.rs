//! The broker is away.

use std::time::{Duration, Instant};

use xtask::servers::Rocketmq;
use xtask::servers::rocketmq::{Flush, Options};
use xtask::test_servers;

use super::super::bed::{Bed, DEADLINE, On, numbers};
use super::{bed_at, consumer};

/// With a broker that a test may kill.
fn with_own_broker() -> Option<(Rocketmq, Bed)> {
    let options = Options { flush: Flush::Sync, ..Options::default() };
    let broker = test_servers::own_or_skip(Rocketmq::start(&options))?;
    let bed = bed_at(On::Postgres, broker.name_server())?;
    Some((broker, bed))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_loses_nothing() {
    let Some((mut broker, bed)) = with_own_broker() else { return };
    let place = &bed.place;
    place.send(numbers(0..50));
    let consumers = [0, 1].map(|_| place.start(consumer(place), |_| Ok(())));
    place.wait_for_effects(10);
    broker.kill9().expect("kill -9");
    broker.start_again().expect("start again");
    place.send(numbers(50..100));
    place.wait_until_consumed();
    place.assert_once_in_order(100);
    for consumer in consumers {
        let report = consumer.shutdown_blocking(DEADLINE);
        assert!(report.is_clean(), "{report:?}");
    }
}

/// A broker that never comes back holds up no shutdown for longer than the grace and a bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_without_a_broker() {
    let Some((mut broker, bed)) = with_own_broker() else { return };
    let place = &bed.place;
    place.send(numbers(0..5));
    let consumer = place.start(consumer(place), |_| Ok(()));
    place.wait_for_effects(5);
    broker.kill9().expect("kill -9");
    let began = Instant::now();
    let report = consumer.shutdown_blocking(Duration::from_secs(1));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}: {report:?}", began.elapsed());
}
