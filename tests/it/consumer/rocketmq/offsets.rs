//! Offsets of the group and in the database, and those that no queue has.

use diesel_outbox::consumer::Progress;
use xtask::servers::rocketmq::request;

use super::super::bed::{DEADLINE, On, Place, numbers};
use super::{QUEUES, UPDATE_CONSUMER_OFFSET, bed, consumer};
use crate::transport::rocketmq_broker::broker_of;

/// Has the broker know another offset of the group, in each queue.
pub(crate) fn set_offsets(place: &Place, offset: i64) {
    let (broker, group, offset) = (broker_of(&place.bootstrap, &place.topic), place.group(), offset.to_string());
    for queue in 0..QUEUES {
        let queue = queue.to_string();
        let fields = [
            ("consumerGroup", group.as_str()),
            ("topic", place.topic.as_str()),
            ("queueId", &queue),
            ("commitOffset", &offset),
        ];
        let answer = request(&broker, UPDATE_CONSUMER_OFFSET, &fields).expect("a broker");
        assert_eq!(answer.code, 0, "{}", answer.header);
    }
}

/// Consumes, moves the group's offsets, and consumes more.
fn goes_on_after(offset: i64, progress: Progress) {
    let Some(bed) = bed(On::Postgres) else { return };
    let place = &bed.place;
    place.send(numbers(0..40));
    let first = place.start(consumer(place).progress(progress), |_| Ok(()));
    place.wait_until_consumed();
    assert!(first.shutdown_blocking(DEADLINE).is_clean());
    set_offsets(place, offset);
    place.send(numbers(40..60));
    let second = place.start(consumer(place).progress(progress), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(60);
    assert!(second.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_says_where_to_go_on() {
    goes_on_after(0, Progress::Offsets);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_forgot_its_offsets_repeats_nothing() {
    goes_on_after(0, Progress::Inbox);
}

/// As after a broker that lost its newest messages.
#[tokio::test(flavor = "multi_thread")]
async fn an_offset_beyond_the_end_repeats_and_leaves_out_nothing() {
    goes_on_after(1_000, Progress::Inbox);
}
