use diesel_outbox::OutboxMessage;
use diesel_outbox_codecs::Protobuf;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", codec = Protobuf)]
struct NoMessage {
    id: i64,
}

fn main() {}
