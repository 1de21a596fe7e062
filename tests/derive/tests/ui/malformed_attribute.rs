use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox]
#[outbox = "orders"]
#[outbox(topic)]
struct Bare;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic("orders"), kind = , tombstone = true, 3, key = a b, headers = "source")]
struct Garbled {
    #[outbox(key = a, header("a"))]
    a: u8,
    #[outbox(header, header = "b")]
    b: u8,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", headers(source = "shop", "tenant", "a" = , "b" = "c" "d"))]
struct Headers;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders" kind = "order.placed")]
struct NoComma;

fn main() {}
