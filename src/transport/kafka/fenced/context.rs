use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::transport::kafka::client::Client;
use crate::transport::kafka::context::Context;
use crate::transport::{FailureClass, TransportError};

pub(super) type LaneProducer = BaseProducer<LaneContext>;

/// What the client of one lane calls back. What became of a message is kept until its transaction asks for it.
pub(super) struct LaneContext {
    pub(super) inner: Context,
    /// The client of all other topics.
    shared: Arc<Client>,
    reports: Mutex<Vec<Report>>,
}

/// What became of the message at a place of the transaction.
pub(super) type Report = (usize, Result<(), Code>);

impl LaneContext {
    pub(super) fn new(shared: Arc<Client>) -> Self {
        Self { inner: shared.context(), shared, reports: Mutex::default() }
    }

    /// Why nothing reaches any broker. One broker that is away is the trouble of its partitions, and this client that broke is
    /// dropped: neither is of the transport.
    pub(super) fn outage(&self) -> Option<TransportError> {
        let health = &self.inner.health;
        let own = || health.outage().filter(|outage| health.is_all_down() && outage.class() != FailureClass::Fatal);
        self.shared.outage().or_else(own)
    }

    pub(super) fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ProducerContext for LaneContext {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, place: usize) {
        let report = match result {
            Ok(_) => {
                self.inner.health.answered();
                Ok(())
            }
            Err((error, _)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                // It came over the wire; the client's own codes are negative.
                if code as i32 > 0 {
                    self.inner.health.answered();
                }
                Err(code)
            }
        };
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push((place, report));
    }
}

impl ClientContext for LaneContext {
    fn error(&self, error: KafkaError, reason: &str) {
        self.inner.error(error, reason);
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.inner.log(level, facility, text);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.inner.stats_raw(statistics);
    }
}
