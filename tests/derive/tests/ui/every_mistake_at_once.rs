use diesel_outbox::OutboxMessage;

#[derive(OutboxMessage)]
#[outbox(topic = "new orders", kind = "", key = oder_id, codek = Csv)]
#[outbox(kind = "order.placed", headers("" = "shop", "outbox-id" = 7, "tenant" = tennant))]
struct OrderPlaced {
    order_id: i64,
    #[outbox(key, index)]
    tenant: String,
}

// An event with mistakes still is one: only the mistakes are reported.
fn main() {
    fn enqueue(_: impl OutboxMessage) {}
    enqueue(OrderPlaced { order_id: 1, tenant: String::new() });
}
