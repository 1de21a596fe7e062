use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = "order_id")]
struct Quoted {
    order_id: i64,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = 0)]
struct Index(i64);

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = "all")]
struct Text {
    order_id: i64,
}

fn main() {}
