//! A real schema registry: what `build` does with each state of a subject, and what goes on without it.

use anyhow::{Context as _, Result};
use apache_avro::AvroSchema;
use diesel_outbox::codec::Codec;
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{BuildProblem, EnqueueError, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::Decode as _;
use diesel_outbox_codecs::avro::{Avro, SchemaError, SchemaProblem, SchemaRegistry};
use serde::{Deserialize, Serialize};
use xtask::servers::SchemaRegistry as Server;
use xtask::test_servers::own_or_skip;

use crate::shop::Shop;

/// The registry of the producers, and that of a consumer elsewhere.
struct Producers;
struct Consumer;

mod v1 {
    use super::*;

    #[derive(Serialize, Deserialize, AvroSchema, OutboxMessage)]
    #[avro(namespace = "shop")]
    #[outbox(topic = "orders", key = id, codec = Avro<Producers>)]
    pub(super) struct Order {
        pub(super) id: i64,
    }
}

mod v2 {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, AvroSchema, OutboxMessage)]
    #[avro(namespace = "shop")]
    #[outbox(topic = "orders", key = id, codec = Avro<Producers>)]
    pub(super) struct Order {
        pub(super) id: i64,
        #[avro(default = "\"EUR\"")]
        pub(super) currency: String,
    }
}

/// Not compatible: a new field without a default.
mod v3 {
    use super::*;

    #[derive(Serialize, Deserialize, AvroSchema, OutboxMessage)]
    #[avro(namespace = "shop")]
    #[outbox(topic = "orders", key = id, codec = Avro<Producers>)]
    pub(super) struct Order {
        pub(super) id: i64,
        pub(super) cents: i64,
    }
}

fn the_problem(error: SchemaError) -> SchemaProblem {
    assert_eq!(error.problems().len(), 1, "{error}");
    error.into_problems().remove(0)
}

#[test]
fn schema_registry_is_asked_at_build_and_not_needed_afterwards() -> Result<()> {
    let Some(mut server) = own_or_skip(Server::start()) else { return Ok(()) };
    let registry = SchemaRegistry::new(server.url());
    let schemas = || registry.clone().schemas_of::<Producers>();

    let problem = the_problem(schemas().message::<v1::Order>().build_blocking().expect_err("no subject"));
    assert!(
        matches!(&problem, SchemaProblem::UnknownSubject { subject, .. } if subject == "orders-value"),
        "{problem:?}"
    );
    let unbuilt = Outbox::builder().topic(Topic::new("orders")).message::<v1::Order>().build().expect_err("no id");
    assert!(matches!(unbuilt.problems(), [BuildProblem::Codec { .. }]), "{unbuilt}");
    assert!(unbuilt.to_string().contains("schemas()"), "{unbuilt}");

    schemas().message::<v1::Order>().register().build_blocking()?;
    schemas().message::<v1::Order>().build_blocking().context("it is registered")?;
    server.request("PUT", "/config/orders-value", r#"{"compatibility":"BACKWARD"}"#)?;

    let problem = the_problem(schemas().message::<v2::Order>().build_blocking().expect_err("not registered"));
    assert!(
        matches!(&problem, SchemaProblem::UnknownSchema { subject, .. } if subject == "orders-value"),
        "{problem:?}"
    );
    let refused = schemas().message::<v3::Order>().register().build_blocking().expect_err("incompatible");
    let problem = the_problem(refused);
    assert!(matches!(&problem, SchemaProblem::Incompatible { reason, .. } if !reason.is_empty()), "{problem:?}");
    let consumer = registry.clone().schemas_of::<Consumer>().build_blocking()?;
    let problem = the_problem(consumer.fetch_blocking(&[0, 0, 0x0f, 0, 0, 0]).expect_err("no such schema"));
    assert!(matches!(problem, SchemaProblem::UnknownId { id: 0x000f_0000 }), "{problem:?}");

    // A consumer of version 2 reads what version 1 wrote.
    let old = v1::Order { id: 7 }.payload()?.context("a payload")?;
    consumer.fetch_blocking(&old)?;
    let read: v2::Order = Avro::<Consumer>::decode(&old)?;
    assert_eq!(read, v2::Order { id: 7, currency: "EUR".to_owned() });

    // Version 2 is deployed: it shows what version 1 wrote.
    struct Deployed;
    assert!(<Avro<Deployed> as Codec<v2::Order>>::text(&old).is_err());
    let deployed = registry.clone().schemas_of::<Deployed>().message::<v2::Order>().register().older_versions(10);
    deployed.build_blocking()?;
    assert_eq!(<Avro<Deployed> as Codec<v2::Order>>::text(&old)?, r#"{"id":7}"#);

    let shop = Shop::open(Outbox::builder().topic(Topic::new("orders")).message::<v1::Order>().build()?)?;
    server.kill9()?;
    let error = schemas().message::<v1::Order>().message::<v3::Order>().build_blocking().expect_err("it is away");
    assert!(error.is_retriable() && matches!(error.problems(), [SchemaProblem::Away { .. }]), "{error}");
    assert!(error.to_string().contains("does not answer"), "{error}");
    let broker = MemoryTransport::new();
    shop.relay(broker.clone(), |shop| shop.enqueue(&v1::Order { id: 8 }))?;
    let sent = broker.delivered();
    let payload = sent[0].payload.as_deref().context("a payload")?;
    assert_eq!((sent.len(), payload[0], payload.last()), (1, 0, Some(&16)), "the datum 8 is 16 in zigzag");
    assert_eq!(<Avro<Producers> as Codec<v1::Order>>::text(payload)?, r#"{"id":8}"#);
    consumer.fetch_blocking(&old).context("it is cached")?;

    let refused = shop.enqueue(&v2::Order { id: 9, currency: "EUR".to_owned() }).expect_err("its id is not known");
    let refused = refused.downcast::<diesel::result::Error>()?;
    assert!(matches!(EnqueueError::of(&refused), Some(EnqueueError::Codec { .. })), "{refused}");
    Ok(())
}
