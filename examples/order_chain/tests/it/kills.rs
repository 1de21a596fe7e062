//! A consumer that was killed: what it processed since its last commit comes again, and changes nothing.

use std::time::Duration;

use axum::http::StatusCode;
use order_chain::domain::ORDERS;
use order_chain::embedded::REFUSAL;
use order_chain::embedded::world::Consumer;
use order_chain::load::client::Ask;
use order_chain::steps::Steps;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::types::RDKafkaApiKey;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::bed::{Bed, UNITS, wait_until, watched};

const WITHIN: Duration = Duration::from_secs(20);

fn client(bed: &Bed) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bed.world.kafka.bootstrap_servers()).set("group.id", "stock");
    config.create().expect("a client")
}

/// Records of the topic that the broker does not know to be processed by the stock service.
fn to_come_again(bed: &Bed) -> i64 {
    let client = client(bed);
    let mut asked = TopicPartitionList::new();
    for partition in 0..4 {
        asked.add_partition(ORDERS, partition);
    }
    let committed = client.committed_offsets(asked, WITHIN).expect("the broker answers");
    let open = committed.elements().into_iter().map(|element| {
        let (_, end) = client.fetch_watermarks(ORDERS, element.partition(), WITHIN).expect("the broker answers");
        end - if let Offset::Offset(next) = element.offset() { next } else { 0 }
    });
    open.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_consumer_commits_nothing_and_its_records_come_again() {
    let mut bed = Bed::with(watched(), Steps::default()).await;
    bed.world.start().await.expect("it starts");
    let id = bed.placed("key", 1).await;
    // The stock service has its partition by then: it tells the broker before it begins one.
    bed.wait_until_equal().await;
    // From before the payment: a commit of the consumer's own may come just before the kill.
    bed.world.kafka.request_errors(RDKafkaApiKey::OffsetCommit, &[REFUSAL; 500]);
    assert_eq!(bed.send(&Ask::pay(&id)).await.status, StatusCode::OK);
    bed.wait_until_equal().await;
    bed.world.kill_consumer(Consumer::Stock).await;
    assert!(to_come_again(&bed) > 0, "everything was committed");
    bed.world.start_consumer(Consumer::Stock).expect("started");
    wait_until("all came again", async || to_come_again(&bed) == 0).await;
    bed.wait_until_equal().await;
    let stock = bed.world.ledgers.stock().expect("the stock service").rows[0];
    assert_eq!((stock.available, stock.locked, stock.sold), (UNITS - 1, 0, 1));
    bed.world.end().await.expect("it ends in order");
}
