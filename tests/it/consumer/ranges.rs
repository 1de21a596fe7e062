//! Offsets that are not in their partition.

use diesel_outbox::consumer::Progress;
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

use super::bed::{Bed, DEADLINE, Gate, Place, numbers, wait_until};
use crate::transport::broker::{TIMEOUT, client};

/// Removes the oldest records, as the topic's retention does.
async fn remove_before(place: &Place, offset: i64) {
    let admin: AdminClient<DefaultClientContext> = client(&place.bootstrap).create().expect("an admin client");
    let mut before = TopicPartitionList::new();
    before.add_partition_offset(&place.topic, 0, rdkafka::Offset::Offset(offset)).expect("an offset");
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
    let removed = admin.delete_records(&before, &options).await.expect("an answer");
    removed.elements().iter().for_each(|element| element.error().expect("removed"));
}

fn store_offset(place: &Place, offset: i64) {
    place.run("DELETE FROM outbox_consumer_offsets");
    place.run(&format!(
        "INSERT INTO outbox_consumer_offsets VALUES ('{}', '{}', '0', {offset})",
        place.group(),
        place.topic
    ));
}

/// How often stored offsets were read. A backend whose connection is discarded reports at once what it read.
fn scans(place: &Place) -> i64 {
    place.count("SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'outbox_consumer_offsets'")
}

/// Records were removed before they were processed.
#[tokio::test(flavor = "multi_thread")]
async fn below_the_partition_it_goes_on_from_the_oldest_record() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..20));
    remove_before(place, 8).await;
    store_offset(place, 3);
    let consumer = place.start(place.consumer().progress(Progress::Offsets), |_| Ok(()));
    place.wait_until_consumed();
    let seen: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!(seen, (8..20).collect::<Vec<_>>());
    assert_eq!(place.count("SELECT next_offset FROM outbox_consumer_offsets"), 20);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// Without an inbox nobody knows what of the topic was processed.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_end_it_waits_for_a_person() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..10));
    store_offset(place, 1_000);
    let before = scans(place);
    let consumer = place.start(place.consumer().progress(Progress::Offsets), |_| Ok(()));
    wait_until("it reads the offset several times", || scans(place) > before + 3);
    assert_eq!((consumer.status().partitions, place.effects().len()), (0, 0));
    assert_eq!(place.count("SELECT next_offset FROM outbox_consumer_offsets"), 1_000);
    store_offset(place, 0);
    place.wait_until_consumed();
    place.assert_once_in_order(10);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// As after a reset of the group to the end while a transaction is open, which is before that end for a consumer.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_end_a_committed_offset_is_waited_for() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..3));
    place.commit_offsets(5);
    let before = scans(place);
    let consumer = place.start(place.consumer().progress(Progress::Offsets), |_| Ok(()));
    wait_until("it reads the offset several times", || scans(place) > before + 3);
    assert_eq!((consumer.status().partitions, place.effects().len()), (0, 0));
    place.send(numbers(3..7));
    place.wait_until_consumed();
    let seen: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!(seen, [5, 6], "what is before the committed offset was processed elsewhere");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// The inbox recognises what was processed.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_end_an_inbox_lets_it_begin_anew() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..10));
    let both = || place.consumer().progress(Progress::InboxAndOffsets);
    let consumer = place.start(both(), |_| Ok(()));
    place.wait_until_consumed();
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    store_offset(place, 1_000);
    place.send(numbers(10..20));
    let consumer = place.start(both(), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(20);
    assert_eq!(place.count("SELECT next_offset FROM outbox_consumer_offsets"), 20);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// Records are removed while the consumer is behind them: the client refuses to read on, and the partition is opened again.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_go_while_it_runs_stop_nothing() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..4));
    let gate = Gate::default();
    let of_handler = gate.clone();
    // One record in memory, so that the client has not fetched what is sent meanwhile.
    let consumer = place.start(place.consumer().records_max(1), move |_| {
        of_handler.wait();
        Ok(())
    });
    wait_until("a handler runs", || consumer.status().running == 1);
    place.send(numbers(4..300));
    remove_before(place, 290).await;
    gate.open();
    place.wait_until_consumed();
    let seen: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert!((290..300).all(|number| seen.contains(&number)), "{seen:?}");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
