//! Which settings of the client a consumer takes, owns and refuses.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::limits::{CONSUMER_LAG_INTERVAL, CONSUMER_READ_AHEAD, CONSUMER_READ_AHEAD_WAIT};
use crate::transport::{KafkaConfig, KafkaConfigError, Secrets};

/// Settings of producers alone, which a configuration that is shared with a relay has.
const OF_PRODUCERS: &[&str] = &[
    "acks",
    "batch.",
    "compression.",
    "delivery.",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "message.max.bytes",
    "message.timeout.ms",
    "partitioner",
    "queue.buffering.",
    "queuing.strategy",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.",
    "topic.metadata.propagation.max.ms",
    "transaction",
];

/// Settings that belong to the loop, and why.
const OWNED: &[(&str, &str)] = &[
    ("auto.commit.enable", COMMITS),
    ("auto.commit.interval.ms", COMMITS),
    ("auto.offset.reset", "use `KafkaConsumer::start_from`"),
    ("enable.auto.commit", COMMITS),
    ("enable.auto.offset.store", COMMITS),
    ("enable.partition.eof", "an end of a partition is no record"),
    ("group.id", "it is the name given to `KafkaConsumer::new`"),
    ("group.protocol", "partitions are handed over by the classic protocol"),
    (
        "partition.assignment.strategy",
        "partitions are handed over one by one, by cooperative-sticky; each member of the group must use it",
    ),
];

/// How often the client makes its statistics.
pub(super) const STATISTICS: &str = "statistics.interval.ms";

const COMMITS: &str = "an offset is committed once the transaction of each record below it is";

/// The configuration of the client.
pub(super) fn client(config: &KafkaConfig, group: &str) -> Result<ClientConfig, KafkaConfigError> {
    config.refuse_settings_without_their_feature(cfg!(feature = "kafka-ssl"))?;
    let mut client = ClientConfig::new();
    client
        .set("queued.min.messages", CONSUMER_READ_AHEAD.to_string())
        .set("fetch.queue.backoff.ms", CONSUMER_READ_AHEAD_WAIT.as_millis().to_string())
        // They say where a partition's records end, which the lag needs.
        .set(STATISTICS, CONSUMER_LAG_INTERVAL.as_millis().to_string());
    for (name, value) in config.settings() {
        if let Some((name, reason)) = OWNED.iter().find(|(owned, _)| *owned == name) {
            return Err(KafkaConfigError::Refused { name, value: value.to_owned(), reason });
        }
        if name == "isolation.level" && value == "read_uncommitted" {
            let reason = "records of a transaction that was taken back would be processed; use read_committed";
            return Err(KafkaConfigError::Refused { name: "isolation.level", value: value.to_owned(), reason });
        }
        if !OF_PRODUCERS.iter().any(|producers| name.starts_with(producers)) {
            client.set(name, value);
        }
    }
    client
        // The loop says where to begin. Elsewhere the client would pass records over, or read old ones again, and tell nobody.
        .set("auto.offset.reset", "error")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("group.id", group)
        .set("partition.assignment.strategy", "cooperative-sticky");
    client.set_log_level(RDKafkaLogLevel::Debug);
    let secrets = Secrets::of(config.settings());
    client.create_native_config().map_err(|error| KafkaConfigError::from_client(error, &secrets))?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> KafkaConfig {
        KafkaConfig::new("kafka:9092")
    }

    #[test]
    fn a_relays_configuration_fits() {
        let config = config().set("compression.type", "lz4").set("session.timeout.ms", "10000");
        let config = config.set("queued.min.messages", "7");
        let client = client(&config, "billing").expect("it fits");
        assert_eq!((client.get("queued.min.messages"), client.get("fetch.queue.backoff.ms")), (Some("7"), Some("10")));
        assert_eq!(client.get("session.timeout.ms"), Some("10000"));
        assert_eq!((client.get("acks"), client.get("compression.type")), (None, None));
        assert_eq!((client.get("enable.auto.commit"), client.get("group.id")), (Some("false"), Some("billing")));
    }

    #[test]
    fn what_the_loop_owns_is_refused() {
        for (name, _) in OWNED {
            let refused = client(&config().set(*name, "x"), "billing").expect_err("refused");
            assert!(refused.to_string().contains(name), "{refused}");
        }
        let uncommitted = config().set("isolation.level", "read_uncommitted");
        assert!(client(&uncommitted, "billing").is_err());
    }
}
