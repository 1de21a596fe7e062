use diesel_outbox::OutboxMessage;
use diesel_outbox_codecs::Decoder;

#[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct Old {
    id: i64,
}

#[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct New {
    id: i64,
    currency: String,
}

fn main() {
    let _ = Decoder::<New>::builder().upcast::<Old, New>().build();
}
