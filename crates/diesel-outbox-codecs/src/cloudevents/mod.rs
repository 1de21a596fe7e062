//! Sends messages as [CloudEvents 1.0.2](https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md), over Kafka and HTTP.
//!
//! ```
//! use diesel_outbox::transport::MemoryTransport;
//! use diesel_outbox_codecs::cloudevents::cloud_events;
//!
//! // or cloud_events(KafkaTransport::new(..)?, "/shop")
//! let transport = cloud_events(MemoryTransport::new(), "/shop");
//! # let _ = transport;
//! ```
//!
//! | attribute | value |
//! |---|---|
//! | `id` | the message id: the same in every copy |
//! | `source` | as given; with `id` it names the event |
//! | `type` | the kind; the topic, if the message has none |
//! | `time` | when the row was written |
//! | `subject` | the key, with [`subject_from_key`](CloudEvents::subject_from_key) |
//! | `datacontenttype` | the message's header `content-type`; otherwise `application/json`, or what [`data_content_type`](CloudEvents::data_content_type) says |
//! | extensions | the message's headers that begin with `ce_` |
//!
//! The event is made when the message is sent, so rows, the dashboard and the history hold what was enqueued. The outbox's own
//! headers stay.

mod attributes;
mod binary;
mod structured;
mod transport;

pub use transport::{CloudEvents, cloud_events};
