//! Consumers that come and go.

use std::time::Duration;

use diesel_outbox::consumer::{ConsumerReport, RunningConsumer};

use super::bed::{Bed, DEADLINE, Gate, On, Place, number, numbers, wait_until};
use super::group_member::Member;

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
    let left = first.shutdown_blocking(DEADLINE);
    assert!(left.is_clean(), "{left:?}");
    place.send(numbers(300..400));
    wait_until("the second reads all", || second.status().partitions == 4);
    let third = start(place);
    place.send(numbers(400..500));
    place.wait_until_consumed();
    place.assert_once_in_order(500);
    for consumer in [second, third] {
        let report = consumer.shutdown_blocking(DEADLINE);
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
    assert!(second.shutdown_blocking(DEADLINE).is_clean());
}

/// A consumer ends while its group rebalances: the broker refuses its offsets. Then another member has the partition, and has processed more
/// of it: the broker would take the offsets, and they would go back.
async fn ends_in_a_rebalance() -> Option<ConsumerReport> {
    let bed = Bed::on_postgres(1).await?;
    let (place, topic) = (&bed.place, bed.place.topic.as_str());
    let mut other = Member::new(&place.bootstrap, &place.group());
    assert!(other.join().is_empty());
    assert!(other.assign_to_itself(topic, 0));
    let gate = Gate::default();
    let of_handler = gate.clone();
    let consumer = place.consumer().commit_interval(Duration::from_secs(3_600));
    let consumer = place.start(consumer, move |record| {
        if number(record) == 9 {
            of_handler.wait();
        }
        Ok(())
    });
    let mut ours = Vec::new();
    wait_until("the consumer joins", || {
        ours = other.join();
        match ours.first() {
            Some(consumer) => other.assign(consumer, topic, 0),
            None => {
                // If it joins in this moment, it is there the next time.
                let _ = other.assign_to_itself(topic, 0);
                false
            }
        }
    });
    place.send(numbers(0..10));
    place.wait_for_effects(9);
    assert_eq!(other.join(), ours);
    let ended = std::thread::spawn(move || consumer.shutdown_blocking(DEADLINE));
    gate.open();
    place.wait_for_effects(10);
    assert!(other.assign_to_itself(topic, 0));
    other.commit(topic, 0, 15);
    let report = ended.join().expect("no panic");
    if report.uncommitted == 1 {
        assert_eq!(place.committed_offset(), 15, "{report:?}");
    }
    place.assert_once_in_order(10);
    Some(report)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_in_a_rebalance_takes_no_offset_back() {
    for _ in 0..5 {
        let Some(report) = ends_in_a_rebalance().await else { return };
        // Unless the broker took its offsets when the consumer gave the partition back, as it may.
        if report.uncommitted == 1 {
            return;
        }
    }
    panic!("it committed for a partition that had gone, or the broker never refused its offsets");
}
