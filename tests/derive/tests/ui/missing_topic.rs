use diesel_outbox::OutboxMessage;

#[derive(serde::Serialize, OutboxMessage)]
struct WithoutAttributes;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(kind = "order.placed")]
struct WithoutTopic;

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = region)]
struct Optional {
    region: Option<String>,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = region?)]
struct Asked {
    region: std::option::Option<String>,
}

#[derive(serde::Serialize, OutboxMessage)]
#[outbox(topic = orders)]
struct WithoutQuotes {
    region: String,
}

fn main() {}
