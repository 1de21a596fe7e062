//! kill -9 in the middle of a redrive of many dead letters: nothing is lost, and the audit says how far it came.

use std::time::{Duration, Instant};

use diesel_outbox::admin::{AuditFilter, DeadLetterFilter};

use super::program::program;
use super::shop::{Kind, Shop, order};

const LETTERS: usize = 200;
const PER_TRANSACTION: usize = 5;
/// So many are redriven before it dies: several transactions.
const BEFORE: usize = 20;
const DEADLINE: Duration = Duration::from_secs(60);

async fn live(shop: &Shop) -> usize {
    let topics = shop.admin().topics().await.expect("topics");
    topics.iter().find(|topic| &*topic.topic == "orders").expect("the topic").live.count
}

async fn dead(shop: &Shop) -> usize {
    shop.admin().count_dead_letters_of(&DeadLetterFilter::new().topic("orders"), usize::MAX).await.expect("count").count
}

/// Many dead letters by one statement: copies of one under other ids.
async fn fill(shop: &Shop, kind: Kind) {
    shop.dead_letter(&order("0"), "refused: no").await;
    let columns =
        "topic, lane, kind, headers, payload, due_at, epoch, attempts, failures, errors, created_at, dead_at, reason";
    let many = LETTERS - 1;
    let copy = match kind {
        Kind::Postgres => format!(
            "INSERT INTO outbox_dead_letters (id, message_id, {columns}) \
             SELECT id + n, gen_random_uuid(), {columns} FROM outbox_dead_letters, generate_series(1, {many}) n"
        ),
        Kind::Mariadb => format!(
            "INSERT INTO outbox_dead_letters (id, message_id, {columns}) \
             SELECT id + seq, UNHEX(LPAD(HEX(seq), 32, '0')), {columns} FROM outbox_dead_letters, seq_1_to_{many}"
        ),
        Kind::Sqlite => format!(
            "INSERT INTO outbox_dead_letters (id, message_id, {columns}) \
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {many}) \
             SELECT id + n, randomblob(16), {columns} FROM outbox_dead_letters, n"
        ),
    };
    shop.execute(&copy).await;
    assert_eq!(dead(shop).await, LETTERS);
}

async fn killed(kind: Kind) {
    let Some(shop) = Shop::fresh(kind).await else { return };
    fill(&shop, kind).await;
    let batch = PER_TRANSACTION.to_string();
    // Ten seconds for all.
    let args = ["dead", "redrive", "--topic", "orders", "--rate", "20", "--batch", &batch, "--actor", "alice"];
    let mut process = program(&shop.url, &args).spawn().expect("run the program");
    let end = Instant::now() + DEADLINE;
    while live(&shop).await < BEFORE {
        assert!(Instant::now() < end, "not within {DEADLINE:?}");
        assert!(process.try_wait().expect("its state").is_none(), "it has ended");
    }
    process.kill().expect("kill -9");
    process.wait().expect("reap");

    let filter = AuditFilter::new().actor("alice").action("redrive_all");
    let (mut live, mut entry);
    // What its session has begun, the server still commits or rolls back.
    loop {
        let mut entries = shop.admin().audit(&filter, None, 10).await.expect("audit").items;
        assert_eq!(entries.len(), 1, "{entries:?}");
        (live, entry) = (self::live(&shop).await, entries.remove(0));
        if entry.changed == live && live + dead(&shop).await == LETTERS {
            break;
        }
        assert!(Instant::now() < end, "{live} are live, {entry:?}");
    }
    assert!((BEFORE..LETTERS).contains(&live) && live % PER_TRANSACTION == 0, "{live}");
    assert_eq!(entry.ended_at, None);
    let shown = shop.run(&["audit", "--by", "alice"]).ok();
    assert!(shown.contains("not ended") && shown.contains(&live.to_string()), "{shown}");

    // The next one goes on with the rest.
    let rest = shop.run(&["dead", "redrive", "--topic", "orders", "--output", "json"]).json();
    assert_eq!(rest["changed"]["count"], LETTERS - live);
    assert_eq!((self::live(&shop).await, dead(&shop).await), (LETTERS, 0));
}

#[tokio::test]
async fn a_killed_redrive_loses_nothing_on_postgres() {
    killed(Kind::Postgres).await;
}

#[tokio::test]
async fn a_killed_redrive_loses_nothing_on_mariadb() {
    killed(Kind::Mariadb).await;
}

#[tokio::test]
async fn a_killed_redrive_loses_nothing_on_sqlite() {
    killed(Kind::Sqlite).await;
}
