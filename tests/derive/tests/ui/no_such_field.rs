use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = oder.id, headers("tenant" = tennant?))]
struct Named {
    order: i64,
    tenant: String,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = id)]
struct Tuple(i64);

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = id)]
struct Unit;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = region, key = id, headers("tenant" = tenant))]
enum Partly {
    Placed { id: i64, tenant: String },
    Shipped { id: i64, region: String },
    Reset,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = order)]
enum Nowhere {
    Placed { id: i64 },
    Reset,
}

fn main() {}
