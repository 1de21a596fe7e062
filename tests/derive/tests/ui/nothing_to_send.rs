use diesel_outbox::OutboxMessage;

#[derive(OutboxMessage)]
#[outbox(topic = "customers", tombstone, codec = diesel_outbox::codec::Raw)]
struct Erased;

#[derive(OutboxMessage)]
#[outbox(topic = "customers", codec = diesel_outbox::codec::Raw)]
enum AllErased {
    #[outbox(tombstone)]
    One,
    #[outbox(tombstone)]
    Other,
}

#[derive(OutboxMessage)]
#[outbox(topic = "customers")]
enum Never {}

#[derive(OutboxMessage)]
#[outbox(topic = "customers")]
union Either {
    a: u8,
    b: i8,
}

fn main() {}
