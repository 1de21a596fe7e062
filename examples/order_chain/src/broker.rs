//! Which broker carries a topic, and how a consumer reaches it.

use std::fmt;

use diesel_outbox::transport::KafkaConfig;
#[cfg(feature = "servers")]
use diesel_outbox::transport::RocketMqConfig;
use serde::{Deserialize, Serialize};

use crate::domain::PAYMENT_TERMS;

/// A kind of broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Apache Kafka.
    Kafka,
    /// Apache RocketMQ.
    RocketMq,
}

/// The brokers of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "servers", derive(clap::ValueEnum))]
pub enum Brokers {
    /// Kafka carries both topics.
    #[default]
    Kafka,
    /// RocketMQ carries both topics.
    #[cfg_attr(feature = "servers", value(name = "rocketmq"))]
    RocketMq,
    /// Kafka carries what happened to orders, RocketMQ the ends of payment terms.
    Mixed,
}

impl Brokers {
    /// The broker of a topic.
    pub fn of(self, topic: &str) -> Kind {
        match self {
            Self::Kafka => Kind::Kafka,
            Self::RocketMq => Kind::RocketMq,
            Self::Mixed if topic == PAYMENT_TERMS => Kind::RocketMq,
            Self::Mixed => Kind::Kafka,
        }
    }

    /// Whether such a broker has to run.
    pub fn has(self, kind: Kind) -> bool {
        match self {
            Self::Kafka => kind == Kind::Kafka,
            Self::RocketMq => kind == Kind::RocketMq,
            Self::Mixed => true,
        }
    }
}

impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kafka => "Kafka",
            Self::RocketMq => "RocketMQ",
            Self::Mixed => "Kafka and RocketMQ",
        })
    }
}

/// A broker, as a consumer reaches it.
#[derive(Debug, Clone)]
pub enum Broker {
    /// Apache Kafka.
    Kafka(KafkaConfig),
    /// Apache RocketMQ.
    #[cfg(feature = "servers")]
    RocketMq(Box<RocketMqConfig>),
}

/// A consumer of a topic, whatever the broker. Both kinds have the same settings and share no trait, so what is done with the consumer is
/// written here once and compiled for each.
macro_rules! with_consumer {
    ($broker:expr, $group:expr, $topic:expr, |$consumer:ident| $body:expr) => {
        match $broker {
            $crate::broker::Broker::Kafka(config) => {
                let $consumer = diesel_outbox::consumer::KafkaConsumer::new(config, $group).topic($topic);
                $body
            }
            #[cfg(feature = "servers")]
            $crate::broker::Broker::RocketMq(config) => {
                let $consumer = diesel_outbox::consumer::RocketMqConsumer::new(*config, $group).topic($topic);
                $body
            }
        }
    };
}

pub(crate) use with_consumer;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ORDERS;

    #[test]
    fn every_topic_is_on_a_broker_that_runs() {
        for brokers in [Brokers::Kafka, Brokers::RocketMq, Brokers::Mixed] {
            let kinds = [ORDERS, PAYMENT_TERMS].map(|topic| brokers.of(topic));
            for kind in [Kind::Kafka, Kind::RocketMq] {
                assert_eq!(brokers.has(kind), kinds.contains(&kind), "{brokers:?}: {kind:?}");
            }
        }
    }
}
