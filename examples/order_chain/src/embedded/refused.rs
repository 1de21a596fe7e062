//! A consumer that is killed commits no offsets. Dropping one in this process ends it in order: it would commit first.

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

/// The broker as it is used here.
type Kafka = MockCluster<'static, DefaultProducerContext>;

/// Others ask the broker meanwhile, too. They ask again.
const TIMES: usize = 50;
/// The client does not repeat what is answered so, and the consumer gives up at once.
pub const REFUSAL: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
/// To commit offsets, and to look whether they are committed.
const REQUESTS: [RDKafkaApiKey; 2] = [RDKafkaApiKey::OffsetCommit, RDKafkaApiKey::OffsetFetch];

/// As long as it lives, no offset is committed: for a consumer that ends meanwhile, what it processed since its last commit comes again.
pub(crate) struct Refused<'a>(&'a Kafka);

impl<'a> Refused<'a> {
    pub(crate) fn by(kafka: &'a Kafka) -> Self {
        for request in REQUESTS {
            kafka.request_errors(request, &[REFUSAL; TIMES]);
        }
        Self(kafka)
    }
}

impl Drop for Refused<'_> {
    fn drop(&mut self) {
        for request in REQUESTS {
            self.0.clear_request_errors(request);
        }
    }
}
