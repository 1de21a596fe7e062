//! Partitions that are paused because much of them is in memory.

use super::bed::{Bed, DEADLINE, numbers};

/// Each time, the client's thread would sleep for half a second in the middle: 200 s in all.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_paused_and_resumed_reads_on_at_once() {
    const RECORDS: i32 = 4_000;
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..RECORDS));
    let consumer = place.start(place.consumer().records_max(20), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(RECORDS);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
