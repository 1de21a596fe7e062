use diesel_outbox::OutboxMessage;
use diesel_outbox::codec::Raw;

#[derive(OutboxMessage)]
#[outbox(topic = "images", codec = Raw)]
struct NotBytes;

fn main() {}
