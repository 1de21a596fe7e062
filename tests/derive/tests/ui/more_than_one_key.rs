use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct Marked {
    #[outbox(key)]
    shop: String,
    #[outbox(key)]
    order_id: i64,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = order_id)]
struct Both {
    #[outbox(key)]
    order_id: i64,
}

fn main() {}
