//! What the client library logs, as events of this library: for each client, whatever it does.

use rdkafka::config::RDKafkaLogLevel;

use crate::events::log_event;

/// Logs a line, whose secrets are scrubbed.
pub(crate) fn log_line(level: RDKafkaLogLevel, facility: &str, text: &str) {
    use RDKafkaLogLevel as Level;
    match level {
        Level::Emerg | Level::Alert | Level::Critical => log_event!(KAFKA_CLIENT_ERROR, facility, %text),
        Level::Error | Level::Warning => log_event!(KAFKA_CLIENT_WARNING, facility, %text),
        Level::Notice | Level::Info => tracing::debug!(facility, "kafka client: {text}"),
        Level::Debug => tracing::trace!(facility, "kafka client: {text}"),
    }
}

/// For users who set `statistics.interval.ms`. rdkafka's default logs them at level info, as a line.
pub(crate) fn log_statistics(statistics: &[u8]) {
    tracing::debug!("kafka client statistics: {}", String::from_utf8_lossy(statistics));
}
