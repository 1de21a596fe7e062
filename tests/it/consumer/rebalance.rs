//! Consumers that come and go.

use diesel_outbox::consumer::RunningConsumer;

use super::bed::{Bed, DEADLINE, On, Place, numbers, wait_until};

/// Two consumers share the partitions, one leaves, another joins, while records arrive.
pub(super) fn each_record_has_one_effect_while_members_come_and_go(
    place: &Place,
    start: impl Fn(&Place) -> RunningConsumer,
) {
    place.send(numbers(0..100));
    let first = start(place);
    place.wait_for_effects(20);
    let second = start(place);
    place.send(numbers(100..200));
    wait_until("both read", || first.status().partitions == 2 && second.status().partitions == 2);
    place.send(numbers(200..300));
    let left = first.shutdown(DEADLINE);
    assert!(left.is_clean(), "{left:?}");
    place.send(numbers(300..400));
    wait_until("the second reads all", || second.status().partitions == 4);
    let third = start(place);
    place.send(numbers(400..500));
    place.wait_until_consumed();
    place.assert_once_in_order(500);
    for consumer in [second, third] {
        let report = consumer.shutdown(DEADLINE);
        assert!(report.is_clean(), "{report:?}");
    }
}

async fn come_and_go(on: On) {
    let Some(bed) = Bed::open(on, 4).await else { return };
    each_record_has_one_effect_while_members_come_and_go(&bed.place, |place| place.start(place.consumer(), |_| Ok(())));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_has_one_effect_while_members_come_and_go_on_postgres() {
    come_and_go(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_has_one_effect_while_members_come_and_go_on_mariadb() {
    come_and_go(On::Mariadb).await;
}

/// A member that is dropped without a shutdown leaves the group as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_consumer_hands_its_partitions_over() {
    let Some(bed) = Bed::on_postgres(2).await else { return };
    what_a_dropped_consumer_read_is_read_on(&bed.place, |place| place.start(place.consumer(), |_| Ok(())));
}

pub(super) fn what_a_dropped_consumer_read_is_read_on(place: &Place, start: impl Fn(&Place) -> RunningConsumer) {
    place.send(numbers(0..20));
    let first = start(place);
    place.wait_for_effects(20);
    drop(first);
    place.send(numbers(20..40));
    let second = start(place);
    place.wait_until_consumed();
    place.assert_once_in_order(40);
    assert!(second.shutdown(DEADLINE).is_clean());
}
