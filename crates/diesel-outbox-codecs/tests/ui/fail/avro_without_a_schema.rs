use diesel_outbox::OutboxMessage;
use diesel_outbox_codecs::avro::Avro;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", codec = Avro)]
struct NoSchema {
    id: i64,
}

fn main() {}
