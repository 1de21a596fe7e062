//! Every command in table and JSON, the same on each database.

use std::time::Duration;

use diesel_outbox::{Message, MessageId};

use super::parked::park;
use super::shop::{Kind, Shop, order, payment};
use super::transcript::Transcript;

const FORMATS: [&str; 2] = ["table", "json"];

/// Messages in every state.
struct Planted {
    retrying: MessageId,
    delayed: MessageId,
    due: MessageId,
    refused: MessageId,
    used_up: MessageId,
    invoice: MessageId,
    sent: MessageId,
    late: MessageId,
    head: MessageId,
}

impl Planted {
    async fn in_shop(shop: &Shop) -> Self {
        let invoice =
            Message::to("invoices").kind("invoice.written").payload_bytes([0xff, 0x00]).header("digest", [0xff]);
        let due = shop.enqueue(&order("1")).await;
        let retrying = shop.failed(&order("2"), "no such field\x1b[31m: amount").await;
        let delayed = shop.enqueue(&order("3").delay(Duration::from_secs(3_600))).await;
        let refused = shop.dead_letter(&order("4"), "refused: no such field: amount").await;
        let used_up = shop.dead_letter(&order("5").header("tenant", "7"), "attempts: the broker did not answer").await;
        let invoice = shop.dead_letter(&invoice, "refused: too large").await;
        let (sent, late) = (shop.sent(&order("6")).await, shop.sent(&order("6")).await);
        shop.admin().report_processed(sent).await.expect("report");
        let head = shop.enqueue(&payment("a")).await;
        for _ in 0..2 {
            shop.enqueue(&payment("a")).await;
        }
        shop.failed_in_lane("a", head, "the account is closed").await;
        Self { retrying, delayed, due, refused, used_up, invoice, sent, late, head }
    }

    fn names(&self, transcript: &mut Transcript<'_>) {
        for (id, name) in [
            (self.retrying, "retrying"),
            (self.delayed, "delayed"),
            (self.due, "due"),
            (self.refused, "refused"),
            (self.used_up, "used up"),
            (self.invoice, "invoice"),
            (self.sent, "sent"),
            (self.late, "late"),
            (self.head, "head"),
        ] {
            transcript.name(id, name);
        }
    }
}

async fn reading(kind: Kind) {
    let id = |id: MessageId| id.to_string();
    for format in FORMATS {
        // Each has messages of its own: on a busy machine those of the first are overdue for `check` when the second comes.
        let Some(shop) = Shop::fresh(kind).await else { return };
        let planted = Planted::in_shop(&shop).await;
        let mut transcript = Transcript::new(&shop, format);
        planted.names(&mut transcript);
        let mut run = |line: &str| {
            transcript.run(&line.split_whitespace().collect::<Vec<_>>());
        };
        run("status");
        run("check");
        run("check --dead-max 10 --overdue-max 1h");
        run("topics");
        run("topics orders");
        run("topics order");
        run("lanes");
        run("lanes payments");
        run("lanes orders");
        run("keys payments");
        run("keys orders");
        run("live list");
        run("live list --topic orders --state retrying");
        run("live list --topic payments --state blocked --limit 1");
        run("live list --topic orders --header source=shop --kind order.placed --key 2 --payloads");
        run("live list --topic orders --key none");
        run("live list --topic order");
        run(&format!("live show {}", id(planted.retrying)));
        run(&format!("live show {}", id(planted.head)));
        run(&format!("live show {}", id(planted.refused)));
        run("dead list");
        run("dead list --topic orders --dead-reason refused --since 1h");
        run("dead list --before 1h");
        run("dead list --topic order");
        run(&format!("dead show {}", id(planted.refused)));
        run(&format!("dead show {}", id(planted.invoice)));
        run("history list --topic orders --key 6");
        run("history list --topic orders --unprocessed --older-than 0s");
        run("history list --topic orders --unprocessed");
        run("history list --topic invoices --key 6");
        run(&format!("history show {}", id(planted.sent)));
        run("verify --topic orders --processed-within 1h");
        run("verify --topic orders --processed-within 0s --since 1h");
        run("verify --topic invoices --processed-within 0s");
        run("verify --topic order --processed-within 0s");
        run("audit");
        transcript.compare("reading");
    }
}

async fn acting(kind: Kind) {
    for format in FORMATS {
        let Some(shop) = Shop::fresh(kind).await else { return };
        let planted = Planted::in_shop(&shop).await;
        let mut transcript = Transcript::new(&shop, format);
        planted.names(&mut transcript);
        let mut run = |line: &str| {
            transcript.run(&[&line.split_whitespace().collect::<Vec<_>>()[..], &["--actor", "alice"]].concat());
        };
        let id = |id: MessageId| id.to_string();
        for dry_run in [" --dry-run", ""] {
            run(&format!("pause orders payments{dry_run}"));
            run(&format!("resume orders{dry_run}"));
        }
        run("pause order");
        run("resume orders");
        run(&format!("live send-now {} {} --dry-run", id(planted.delayed), id(planted.retrying)));
        run(&format!("live send-now {} {} {}", id(planted.delayed), id(planted.retrying), id(planted.head)));
        run(&format!("live cancel {} --dry-run", id(planted.due)));
        run(&format!("live cancel {}", id(planted.due)));
        run(&format!("live cancel {} --yes --reason ticket-17", id(planted.due)));
        run(&format!("dead redrive {} --dry-run", id(planted.refused)));
        run(&format!("dead redrive {} {}", id(planted.refused), id(planted.refused)));
        run("dead redrive --topic invoices --dry-run");
        run("dead redrive --topic invoices");
        run("dead redrive --topic invoices");
        run(&format!("dead edit {} --kind order.corrected --header tenant=8 --dry-run --yes", id(planted.used_up)));
        run(&format!("dead edit {} --kind order.corrected --header tenant=8 --yes", id(planted.used_up)));
        shop.dead_letter(&order("7"), "refused: again").await;
        run("dead purge --topic orders --dry-run");
        run("dead purge --topic orders");
        run("dead purge --topic orders --yes");
        run("dead purge --all --yes");
        run(&format!("history resend {} --dry-run", id(planted.sent)));
        run(&format!("history resend {} {}", id(planted.late), id(planted.sent)));
        shop.sent(&order("8")).await;
        run("history resend --topic orders --older-than 0s --dry-run");
        run("history resend --topic orders --older-than 0s");
        run("audit --by alice --limit 3");
        run("audit --by alice --action redrive_all");
        run("audit --by bob");
        transcript.compare("acting");
    }
}

async fn parking(kind: Kind) {
    for format in FORMATS {
        let Some(shop) = Shop::fresh(kind).await else { return };
        let mut transcript = Transcript::new(&shop, format);
        transcript.run(&["parked", "list"]);
        park(&shop, kind).await;
        let mut run = |line: &str| {
            transcript.run(&[&line.split_whitespace().collect::<Vec<_>>()[..], &["--actor", "alice"]].concat());
        };
        run("parked list");
        run("parked list --consumer billing --limit 1");
        run("parked list --consumer bilings");
        run("parked show 1");
        run("parked show 3");
        run("parked show 99");
        run("parked release 1 99 --dry-run");
        run("parked release 1 99 --reason ticket-17");
        run("parked show 1");
        run("parked discard 2 3 --dry-run");
        run("parked discard 2 3");
        run("parked discard 2 3 --yes");
        run("parked discard 3 --yes");
        run("parked list --consumer shipping");
        run("parked list");
        run("audit --by alice");
        transcript.compare("parking");
    }
}

async fn migrating(kind: Kind) {
    for format in FORMATS {
        let Some(shop) = Shop::empty(kind).await else { return };
        let mut transcript = Transcript::new(&shop, format);
        let mut run = |line: &str| {
            transcript.run(&line.split_whitespace().collect::<Vec<_>>());
        };
        run("migrate list");
        run("migrate check");
        run("status");
        run("check");
        run("migrate up --dry-run");
        run("migrate up");
        run("migrate up");
        run("migrate list");
        run("migrate check");
        run("migrate down --dry-run");
        run("migrate down");
        run("migrate down 2 --yes");
        run("migrate list");
        run("check");
        run("audit");
        run("history list --topic orders --key 1");
        run("migrate down --all --yes");
        run("migrate down --yes");
        run("migrate up --prefix shop_");
        run("migrate sql 0000outbox09");
        transcript.compare("migrating");
    }
}

macro_rules! on_each_database {
    ($($scenario:ident: $postgres:ident, $mariadb:ident, $sqlite:ident;)+) => {$(
        #[tokio::test]
        async fn $postgres() {
            $scenario(Kind::Postgres).await;
        }

        #[tokio::test]
        async fn $mariadb() {
            $scenario(Kind::Mariadb).await;
        }

        #[tokio::test]
        async fn $sqlite() {
            $scenario(Kind::Sqlite).await;
        }
    )+};
}

on_each_database! {
    reading: commands_that_read_on_postgres, commands_that_read_on_mariadb, commands_that_read_on_sqlite;
    acting: commands_that_act_on_postgres, commands_that_act_on_mariadb, commands_that_act_on_sqlite;
    parking: commands_on_parked_records_on_postgres, commands_on_parked_records_on_mariadb, commands_on_parked_records_on_sqlite;
    migrating: migrations_on_postgres, migrations_on_mariadb, migrations_on_sqlite;
}

/// The SQL is that of the files, with the names of the tables that were given. No database is asked.
#[test]
fn the_sql_of_migrations_is_printed() {
    for (url, folder) in
        [("postgres://nowhere/shop", "postgres"), ("mysql://nowhere/shop", "mysql"), ("sqlite:no.db", "sqlite")]
    {
        let up = super::program::run(url, &["migrate", "sql"]).ok();
        let file = |name: &str, which: &str| {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/outbox");
            std::fs::read_to_string(root.join(folder).join(name).join(which)).expect("a file of a migration")
        };
        assert!(up.contains(file("0000outbox01_messages", "up.sql").trim_end()), "{up}");
        assert!(up.contains(file("0000outbox06_audit", "up.sql").trim_end()), "{up}");
        let down = super::program::run(url, &["migrate", "sql", "--down"]).ok();
        let at = |name: &str| down.find(&format!("-- {name}")).expect(name);
        assert!(at("0000outbox06_audit") < at("0000outbox01_messages"), "the last one first");
        let renamed = super::program::run(url, &["migrate", "sql", "--prefix", "shop_", "--output", "json"]).json();
        let first = &renamed["items"][0];
        assert!(first["sql"].as_str().expect("SQL").contains("CREATE TABLE shop_messages"), "{first}");
        assert!(first["version"].as_str().expect("a version").starts_with("0000outbox01-"), "{first}");
    }
}
