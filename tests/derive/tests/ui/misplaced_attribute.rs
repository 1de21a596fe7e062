use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", header = "tenant")]
struct OnType;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders")]
enum OnVariant {
    #[outbox(topic = "returns", key = id)]
    Returned {
        #[outbox(kind = "order.returned")]
        id: i64,
    },
}

fn main() {}
