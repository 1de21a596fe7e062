//! Members that come and go.

use super::super::bed::{DEADLINE, On, numbers, wait_until};
use super::super::rebalance::{
    each_record_has_one_effect_while_members_come_and_go, what_a_dropped_consumer_read_is_read_on,
};
use super::{QUEUES, bed, consumer};

fn come_and_go(on: On) {
    let Some(bed) = bed(on) else { return };
    each_record_has_one_effect_while_members_come_and_go(&bed.place, |place| place.start(consumer(place), |_| Ok(())));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_has_one_effect_while_members_come_and_go_on_postgres() {
    come_and_go(On::Postgres);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_has_one_effect_while_members_come_and_go_on_mariadb() {
    come_and_go(On::Mariadb);
}

/// A member that is dropped without a shutdown leaves the group as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_consumer_hands_its_queues_over() {
    let Some(bed) = bed(On::Postgres) else { return };
    what_a_dropped_consumer_read_is_read_on(&bed.place, |place| place.start(consumer(place), |_| Ok(())));
}

/// A member that gets no queue waits for one.
#[tokio::test(flavor = "multi_thread")]
async fn more_members_than_queues_take_over_from_each_other() {
    let Some(bed) = bed(On::Sqlite) else { return };
    let place = &bed.place;
    let mut members: Vec<_> = (0..=QUEUES).map(|_| place.start(consumer(place), |_| Ok(()))).collect();
    let reading = |members: &[diesel_outbox::consumer::RunningConsumer]| {
        members.iter().map(|member| member.status().partitions).collect::<Vec<_>>()
    };
    wait_until("each queue has a reader", || {
        let mut counts = reading(&members);
        counts.sort_unstable();
        counts == [0, 1, 1, 1, 1]
    });
    place.send(numbers(0..40));
    place.wait_for_effects(40);
    let left = members.remove(0);
    assert!(left.shutdown_blocking(DEADLINE).is_clean());
    wait_until("the last one has taken over", || reading(&members) == [1, 1, 1, 1]);
    place.send(numbers(40..80));
    place.wait_until_consumed();
    place.assert_once_in_order(80);
    for member in members {
        assert!(member.shutdown_blocking(DEADLINE).is_clean());
    }
}
