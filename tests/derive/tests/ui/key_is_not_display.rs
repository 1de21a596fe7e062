use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize)]
struct Id(i64);

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = id)]
struct OrderPlaced {
    id: Id,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders")]
enum Order {
    Placed {
        #[outbox(key)]
        id: Option<Id>,
    },
}

fn main() {}
