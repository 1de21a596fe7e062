//! One of many messages that is refused: by the broker, or by the database when it is to be settled.

use std::time::Duration;

use diesel::sql_types::BigInt;
use diesel_async::{RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{Message, Outbox, Topic};
use uuid::Uuid;

use super::audit::arrived;
use super::messages::commit;
use super::outages::until;
use super::shop::Shop;

const MESSAGES: usize = 50;
/// Which of them is refused.
const REFUSED: usize = 25;

/// What a batch of the topic may have: the others together are far below it.
const TOPIC_BYTES_MAX: &str = "50000";
const BYTES_TOO_MANY: usize = 100_000;

fn messages(shop: &Shop, bytes_of_one: usize) -> Vec<Message> {
    let bytes = |number| if number == REFUSED { bytes_of_one } else { 100 };
    (0..MESSAGES).map(|number| Message::to(shop.topic.as_str()).payload_bytes(vec![b'x'; bytes(number)])).collect()
}

/// When the messages are committed.
#[derive(Debug, Clone, Copy)]
enum Committed {
    /// Before the relay starts: a claim finds them.
    Before,
    /// While it runs: the hook hands them over.
    Meanwhile,
}

/// A refusal of a whole request is about any of its messages, so that it spends no attempt: with one attempt each, the
/// neighbours are sent all the same.
async fn the_broker_refuses_one(committed: Committed) {
    let Some(shop) = Shop::open().await else { return };
    let topic = Topic::new(shop.topic.as_str())
        .staleness(Duration::from_secs(2))
        .attempts_max(1)
        .retry(Fixed::from(vec![Duration::from_millis(100)]));
    let outbox = Outbox::builder().topic(topic).build().unwrap();
    let config = KafkaConfig::new(&shop.bootstrap).set("message.timeout.ms", "2000");
    let created = KafkaTopic::new(shop.topic.as_str()).partitions(1).replication(1);
    let created = created.config("max.message.bytes", TOPIC_BYTES_MAX);
    let relay = shop.relay(&outbox, KafkaTransport::builder(config).create_topic(created).build().unwrap());
    let (relay, mut ids) = match committed {
        Committed::Before => {
            let ids = commit(&shop, &outbox, messages(&shop, BYTES_TOO_MANY)).await;
            (relay.start().await.unwrap(), ids)
        }
        Committed::Meanwhile => {
            let relay = relay.start().await.unwrap();
            (relay, commit(&shop, &outbox, messages(&shop, BYTES_TOO_MANY)).await)
        }
    };
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());

    let refused = ids.remove(REFUSED);
    ids.sort_unstable();
    assert_eq!(arrived(&shop.bootstrap, &shop.topic).await, ids, "each of the others once");
    let dead = shop.dead_letters().await;
    assert_eq!(dead.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [refused], "{dead:?}");
    let letter = outbox.admin(PostgresStore::new(shop.pool())).dead_letter(refused.into()).await.unwrap();
    assert!(letter.reason.starts_with("refused: record_refused: MessageSizeTooLarge"), "{}", letter.reason);
    assert_eq!(letter.attempts, 0, "a refusal spends none");
    assert!(
        letter.errors.iter().any(|note| note.class == "record_refused"),
        "with its batch first: {:?}",
        letter.errors
    );
    assert_eq!(letter.payload.map(|payload| payload.len()), Some(BYTES_TOO_MANY), "as it was enqueued");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_message_of_a_backlog_does_not_stop_the_others() {
    the_broker_refuses_one(Committed::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_message_of_a_transaction_does_not_stop_the_others() {
    the_broker_refuses_one(Committed::Meanwhile).await;
}

/// Lets the database refuse to remove a message, and count how often: a sequence is not rolled back.
async fn refuse_to_remove(shop: &Shop, message: Uuid) {
    let sql = format!(
        "CREATE SEQUENCE refusals; \
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ \
           BEGIN PERFORM nextval('refusals'); RAISE 'refused'; END $$; \
         CREATE TRIGGER refuse BEFORE DELETE ON outbox_messages \
           FOR EACH ROW WHEN (old.message_id = '{message}') EXECUTE FUNCTION refuse();"
    );
    shop.connect().await.batch_execute(&sql).await.unwrap();
}

async fn refusals(shop: &Shop) -> i64 {
    let last = diesel::dsl::sql::<BigInt>("SELECT last_value FROM refusals");
    last.get_result(&mut shop.connect().await).await.unwrap()
}

/// The claim that sent all of them cannot remove any while that one is among them.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_deleted_delays_no_other_and_is_not_sent_again() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let mut ids = commit(&shop, &outbox, messages(&shop, 100)).await;
    let kept = ids[REFUSED];
    ids.sort_unstable();
    refuse_to_remove(&shop, kept).await;
    let relay = shop.start_relay(&outbox).await;
    until("the others are settled", async || shop.unsettled().await == [kept]).await;
    let tried = refusals(&shop).await;
    until("it is tried again", async || refusals(&shop).await > tried + 1).await;
    assert_eq!(arrived(&shop.bootstrap, &shop.topic).await, ids, "each once");

    shop.connect().await.batch_execute("DROP TRIGGER refuse ON outbox_messages").await.unwrap();
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
    assert_eq!(arrived(&shop.bootstrap, &shop.topic).await, ids, "each once");
    assert!(shop.dead_letters().await.is_empty());
}
