//! A process with two registries, before it has asked them.

use apache_avro::AvroSchema;
use diesel_outbox::{BuildProblem, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::avro::{self, Avro};
use serde::Serialize;

struct Warehouse;

#[derive(Serialize, AvroSchema, OutboxMessage)]
#[outbox(topic = "stock", codec = Avro<Warehouse>)]
struct Counted {
    items: i64,
}

#[derive(Serialize, AvroSchema, OutboxMessage)]
#[outbox(topic = "orders", codec = avro::Avro)]
struct Placed {
    id: i64,
}

#[test]
fn an_event_in_memory_names_the_registry_that_was_not_asked() {
    for error in [Counted { items: 1 }.payload().expect_err("no id"), Placed { id: 1 }.payload().expect_err("no id")] {
        let text = error.to_string();
        assert!(text.contains("at start, before the outbox is built") && text.contains("schemas"), "{text}");
    }
    let unbuilt = Outbox::builder().topic(Topic::new("orders")).message::<Placed>().build().expect_err("no id");
    assert!(
        matches!(unbuilt.problems(), [BuildProblem::Codec { message, .. }] if message.ends_with("Placed")),
        "{unbuilt}"
    );
    assert!(unbuilt.to_string().contains("schemas().message::<"), "{unbuilt}");
}
