//! Consumers: each record is processed once, in the database transaction of its handler.
//!
//! [`KafkaConsumer`] reads topics of Kafka, and [`RocketMqConsumer`] those of RocketMQ. The guide has the reasons and the limits: [consumers](crate::guide::consumers).

mod database;
mod engine;
mod error;
mod identity;
#[cfg(feature = "kafka")]
mod kafka;
mod lag;
mod lookups;
mod migrate;
mod opening;
mod options;
mod parked;
mod record;
mod report;
#[cfg(feature = "rocketmq")]
mod rocketmq;
mod runner;
mod running;
mod setters;
mod shared;
mod source;
mod span;
mod status;
mod worker;

#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
pub use self::database::AsyncPool;
pub use self::database::ConsumerBackend;
pub use self::error::{ConsumerStartError, HandlerError};
#[cfg(feature = "kafka")]
pub use self::kafka::KafkaConsumer;
pub use self::options::{OnFailure, Progress, StartFrom};
pub use self::parked::ParkedRecords;
pub use self::record::Record;
#[cfg(feature = "rocketmq")]
pub use self::rocketmq::RocketMqConsumer;
pub use self::running::RunningConsumer;
pub use self::status::{ConsumerReport, ConsumerStatus};
