use diesel_outbox::OutboxMessage;
use diesel_outbox_codecs::{Decoder, Protobuf};

#[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct Order {
    id: i64,
}

fn main() {
    let _ = Decoder::<Order, Protobuf>::builder().build();
}
