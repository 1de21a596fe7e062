use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "")]
struct Empty;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "..")]
struct Dots;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders/eu")]
struct Slash;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = 7)]
struct Number;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders", kind = order_placed)]
struct UnquotedKind;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = "orders")]
enum Kinds {
    #[outbox(kind = "")]
    Empty,
    #[outbox(kind = 7)]
    Number {
        #[outbox(header = "Outbox-Id")]
        id: u8,
    },
    Unnamed(#[outbox(header)] u8, #[outbox(header = "")] u8),
}

fn main() {}
