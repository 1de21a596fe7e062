//! How far behind the end of its topic a consumer says that it is.

use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::bed::{Bed, DEADLINE, Gate, wait_until};
use crate::transport::broker::{TIMEOUT, client};

/// The end of a transaction has an offset, which no record has.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_ends_with_a_transaction_is_read_to_its_end() {
    const RECORDS: usize = 3;
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let (place, gate) = (&bed.place, Gate::default());
    let consumer = place.start(place.consumer(), {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            Ok(())
        }
    });
    let producer: BaseProducer =
        client(&place.bootstrap).set("transactional.id", &place.topic).create().expect("a producer");
    producer.init_transactions(TIMEOUT).expect("a transactional id");
    producer.begin_transaction().expect("begin");
    for number in 0..RECORDS {
        let (payload, key) = (number.to_string(), "k");
        let sent = producer.send(BaseRecord::to(&place.topic).key(key).payload(&payload));
        sent.unwrap_or_else(|(error, _)| panic!("{error}"));
    }
    producer.commit_transaction(TIMEOUT).expect("commit");
    wait_until("the records lie before it", || consumer.status().lag >= Some(RECORDS));
    gate.open();
    wait_until("nothing lies before it", || consumer.status().lag == Some(0));
    assert_eq!(place.effects().len(), RECORDS);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
