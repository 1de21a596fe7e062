//! Where a partition begins and ends.
//!
//! **Rejected:** `fetch_watermarks`. It sends two requests. If the one for the beginning fails, and both answers arrive together, it reports
//! success, with the end as the beginning (librdkafka 2.12.1, `rd_kafka_query_watermark_offsets`). Who starts there skips every record. A
//! broker that has just started, or has just become the leader, answers like that.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};

/// The offset of the oldest record (`Offset::Beginning`), or that of the next one (`Offset::End`). With `read_committed`, an open transaction is
/// behind the end.
///
/// The client sends what it is given as a time, and these two are times of Kafka's protocol (ListOffsets: -2 and -1).
pub(crate) fn offset_at(
    consumer: &BaseConsumer<impl ConsumerContext>,
    topic: &str,
    partition: i32,
    at: Offset,
    within: Duration,
) -> KafkaResult<i64> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition_offset(topic, partition, at)?;
    let found = consumer.offsets_for_times(asked, within)?;
    match found.find_partition(topic, partition).map(|element| (element.error(), element.offset())) {
        Some((Ok(()), Offset::Offset(offset))) => Ok(offset),
        Some((Err(error), _)) => Err(error),
        // The broker left the partition out of its answer.
        _ => Err(KafkaError::MetadataFetch(Code::UnknownPartition)),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
    use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Answer};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);
    const RECORDS: i64 = 8;

    /// With `fetch_watermarks`, most rounds say that the partition begins at its end.
    #[test]
    fn a_beginning_that_the_broker_refuses_is_an_error() {
        let cluster = MockCluster::new(1).expect("a cluster");
        cluster.create_topic("orders", 1, 1).expect("a topic");
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", "billing");
        let producer: BaseProducer = config.create().expect("a producer");
        for _ in 0..RECORDS {
            producer.send(BaseRecord::<str, str>::to("orders").payload("x")).expect("queued");
        }
        producer.flush(WITHIN).expect("sent");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        for _ in 0..50 {
            cluster.request_errors(Api::ListOffsets, &[Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION]);
            let first = || offset_at(&consumer, "orders", 0, Offset::Beginning, WITHIN);
            assert_eq!(first(), Err(KafkaError::MetadataFetch(Code::NotLeaderForPartition)));
            assert_eq!(first(), Ok(0));
            assert_eq!(offset_at(&consumer, "orders", 0, Offset::End, WITHIN), Ok(RECORDS));
        }
    }
}
