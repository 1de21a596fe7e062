use apache_avro::AvroSchema;
use diesel_outbox::OutboxMessage;
use diesel_outbox_codecs::avro::{self, Avro};

struct Warehouse;

#[derive(serde::Serialize, AvroSchema, OutboxMessage)]
#[outbox(topic = "stock", codec = Avro<Warehouse>)]
struct Counted {
    items: i64,
}

#[derive(serde::Serialize, AvroSchema, OutboxMessage)]
#[outbox(topic = "orders", codec = avro::Avro)]
struct Placed {
    id: i64,
}

fn main() {
    assert!(Counted { items: 1 }.payload().is_err() && Placed { id: 1 }.payload().is_err());
    assert!(<Counted as OutboxMessage>::check_codec().is_err());
}
