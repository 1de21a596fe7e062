use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, ClientContext};

use crate::transport::kafka::client::Client;
use crate::transport::kafka::context::Context;
use crate::transport::{FailureClass, TransportError};

const DEBUG: &str = "debug";

pub(super) type LaneProducer = BaseProducer<LaneContext>;

/// The callbacks of one lane's client. A message's result is kept until its transaction reads it.
pub(super) struct LaneContext {
    pub(super) inner: Context,
    /// The client of the topics that are not fenced.
    shared: Arc<Client>,
    reports: Mutex<Vec<Report>>,
    /// How often a connection broke or a request timed out.
    disconnects: AtomicU64,
    /// Whether the user asked for debug lines. Otherwise they are on for [`disconnects`](Self::disconnects) only.
    logs_debug: bool,
}

/// Makes the client log every broken connection. By default it leaves out repeated, expected and idle ones, and its
/// error events leave out more.
pub(super) fn log_disconnects(config: &mut ClientConfig) {
    let configured = config.get(DEBUG).filter(|configured| !configured.is_empty());
    let debug = configured.map_or_else(|| "broker".to_owned(), |configured| format!("{configured},broker"));
    config.set(DEBUG, debug);
}

/// The result of the message at an index of the transaction: its partition and offset, or why it failed.
pub(super) type Report = (usize, Result<(i32, i64), Code>);

impl LaneContext {
    pub(super) fn new(shared: Arc<Client>) -> Self {
        let logs_debug = shared.config().get(DEBUG).is_some();
        let inner = shared.context();
        Self { inner, shared, reports: Mutex::default(), disconnects: AtomicU64::new(0), logs_debug }
    }

    /// How often a connection broke or a request timed out, among the client's events polled so far.
    pub(super) fn disconnects(&self) -> u64 {
        self.disconnects.load(Ordering::Relaxed)
    }

    /// Why no broker is reachable. One unreachable broker affects its own partitions only, and a broken lane client is
    /// dropped. Neither is an outage of the transport.
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
            Ok(record) => {
                self.inner.health.answered();
                Ok((record.partition(), record.offset()))
            }
            Err((error, _)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                // A positive code came from a broker; the client's own codes are negative.
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
        if matches!(facility, "FAIL" | "REQTMOUT") {
            self.disconnects.fetch_add(1, Ordering::Relaxed);
        }
        if self.logs_debug || !matches!(level, RDKafkaLogLevel::Debug) {
            self.inner.log(level, facility, text);
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.inner.stats_raw(statistics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_debug_contexts_are_logged_beside_disconnects() {
        for (configured, logged) in [(None, "broker"), (Some(""), "broker"), (Some("eos"), "eos,broker")] {
            let mut config = ClientConfig::new();
            if let Some(configured) = configured {
                config.set(DEBUG, configured);
            }
            log_disconnects(&mut config);
            assert_eq!(config.get(DEBUG), Some(logged));
        }
    }
}
