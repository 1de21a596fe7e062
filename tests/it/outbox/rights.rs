//! The rights that docs/operations.md lists: with them application, relay and admin each do all of their work.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_outbox::admin::{
    Admin, AuditFilter, DeadLetterFilter, DeadLetterReason, LiveFilter, RedriveRate, UnprocessedFilter,
};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{Limits, Message, MessageId, OnFailedKey, Outbox, Topic};

use super::databases::{fresh_postgres, pool};

const PAGE: &str = include_str!("../../../docs/operations.md");
const DEADLINE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// What is too old in each table that is pruned.
const OLD_ROWS: &str = "
    INSERT INTO outbox_audit (id, began_at, action, changed) VALUES (gen_random_uuid(), now() - interval '100 days', 'old', 0);
    INSERT INTO outbox_processed_marks (message_id, marked_at) VALUES (gen_random_uuid(), now() - interval '100 days');
    INSERT INTO outbox_dead_letters
        (id, message_id, topic, lane, kind, headers, due_at, epoch, attempts, failures, errors, created_at, reason, dead_at)
    VALUES (-1, gen_random_uuid(), 'orders', -1, 'old', '[]', now(), 0, 1, 1, '[]', now(), 'refused', now() - interval '100 days');
    INSERT INTO outbox_history
        (id, message_id, topic, lane, kind, headers, epoch, attempts, failures, errors, created_at, sent_at, falls_on, awaits_processing)
    VALUES (-1, gen_random_uuid(), 'orders', -1, 'old', '[]', 0, 1, 1, '[]', now(), now(), '2000-01-01', false);
";
const COUNT_OLD_ROWS: &str = "
    SELECT (SELECT count(*) FROM outbox_audit WHERE action = 'old')
         + (SELECT count(*) FROM outbox_processed_marks WHERE marked_at < now() - interval '50 days')
         + (SELECT count(*) FROM outbox_dead_letters WHERE kind = 'old')
         + (SELECT count(*) FROM outbox_history WHERE kind = 'old') AS count";
const COUNT_DAYS: &str = "SELECT count(*) AS count FROM pg_inherits WHERE inhparent = 'outbox_history'::regclass";

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn count(conn: &mut PgConnection, sql: &str) -> i64 {
    diesel::sql_query(sql).get_result::<Count>(conn).expect("count").count
}

/// Polls, because several processes write.
fn until(what: &str, mut state: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::yield_now();
    }
}

/// A database, and its roles, which have nothing but the documented rights.
struct Shop {
    url: String,
    database: String,
    owner: PgConnection,
}

impl Shop {
    fn open() -> Option<Self> {
        let url = fresh_postgres()?;
        let database = url.rsplit_once('/').expect("a database").1.to_owned();
        let owner = PgConnection::establish(&url).expect("connect");
        let mut shop = Self { url, database, owner };
        let (_, section) = PAGE.split_once("\n## Rights\n").expect("a section about rights");
        let (_, grants) = section.split_once("```sql\n").expect("a block of grants");
        let (grants, _) = grants.split_once("```").expect("its end");
        for role in ["app", "relay", "admin"] {
            assert!(grants.contains(&format!("shop_{role}")), "{role}: {grants}");
            let create = format!("CREATE ROLE {} LOGIN PASSWORD 'swordfish'", shop.role(role));
            shop.owner.batch_execute(&create).expect("create a role");
        }
        let grants = grants.replace("shop_", &format!("{}_", shop.database));
        shop.owner.batch_execute(&grants).unwrap_or_else(|error| panic!("{error}\n{grants}"));
        Some(shop)
    }

    fn role(&self, role: &str) -> String {
        format!("{}_{role}", self.database)
    }

    fn url_of(&self, role: &str) -> String {
        let (_, server) = self.url.rsplit_once('@').expect("a login");
        format!("postgres://{}:swordfish@{server}", self.role(role))
    }

    fn store_of(&self, role: &str) -> PostgresStore<Pool> {
        PostgresStore::new(pool::<PgConnection>(&self.url_of(role)))
    }
}

type Pool = diesel::r2d2::Pool<diesel::r2d2::ConnectionManager<PgConnection>>;

fn outbox() -> Outbox {
    let orders = Topic::new("orders").keep_sent_days(30).keep_dead_days(30).processed_within(Duration::from_secs(1));
    let payments = Topic::new("payments").ordered_by_key().serialize_by_key().on_failed_key(OnFailedKey::DeadLetter);
    let builder = Outbox::builder().topic(orders).topic(payments.keep_sent_days(30));
    builder.require_audit().keep_audit_days(30).build().expect("an outbox")
}

fn enqueue(outbox: &Outbox, app: &mut PgConnection, message: &Message) -> MessageId {
    app.transaction(|conn| outbox.enqueue(conn, message)).expect("enqueue")
}

fn message(topic: &str, kind: &str) -> Message {
    Message::to(topic.to_owned()).key("42").kind(kind.to_owned()).payload_bytes("{}")
}

#[test]
fn application_relay_and_admin_work_with_their_documented_rights() {
    let Some(mut shop) = Shop::open() else { return };
    shop.owner.batch_execute(OLD_ROWS).expect("old rows");
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    broker.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), |sent| sent.kind == "refused");
    let mut limits = Limits::default().prune_interval(Duration::from_millis(50));
    limits = limits.poll_interval(Duration::from_millis(20));
    let relay = outbox.relay().store(shop.store_of("relay")).transport(broker.clone()).limits(limits);
    let relay = relay.start_blocking().expect("start");

    let mut app = PgConnection::establish(&shop.url_of("app")).expect("connect");
    let refused: Vec<MessageId> = (0..3).map(|_| enqueue(&outbox, &mut app, &message("orders", "refused"))).collect();
    let sent = [
        enqueue(&outbox, &mut app, &message("orders", "sent")),
        enqueue(&outbox, &mut app, &message("orders", "sent")),
    ];
    let delayed: Vec<MessageId> =
        (0..3).map(|_| enqueue(&outbox, &mut app, &message("orders", "delayed").delay(HOUR))).collect();
    enqueue(&outbox, &mut app, &message("payments", "refused"));
    enqueue(&outbox, &mut app, &message("payments", "sent"));
    broker.wait_for_delivered_blocking(3, DEADLINE).expect("what is not refused arrives");

    let owner = &mut shop.owner;
    until("what is old is removed", || count(owner, COUNT_OLD_ROWS) == 0);
    until("days are created", || count(owner, COUNT_DAYS) > 1);
    until("the sent messages are in the history", || count(owner, "SELECT count(*) AS count FROM outbox_history") == 3);
    until("the refused ones are dead", || count(owner, "SELECT count(*) AS count FROM outbox_dead_letters") == 4);

    broker.clear_responses();
    let admin = outbox.admin(shop.store_of("admin")).acting_as("alice").because("a test");
    admin.blocking().expect("a runtime").run(async |admin| administer(admin, &refused, &delayed, sent).await);
    // One redriven, one edited, one of the ordered topic, one sent now, one resent.
    broker.wait_for_delivered_blocking(8, DEADLINE).expect("all arrive");
    let report = relay.shutdown(DEADLINE).expect("it runs");
    assert!(report.is_clean(), "{report:?}");
}

async fn administer(admin: &Admin, refused: &[MessageId], delayed: &[MessageId], sent: [MessageId; 2]) {
    let counts = admin.count_dead_letters().await.expect("count");
    assert!(counts.iter().all(|count| count.reason == DeadLetterReason::Refused), "{counts:?}");
    let letters = admin.dead_letters(&DeadLetterFilter::new().topic("orders"), None, 10).await.expect("list");
    assert_eq!(letters.items.len(), 3);
    admin.redrive(refused[0]).await.expect("redrive");
    admin.redrive_edited(refused[1], &message("orders", "edited")).await.expect("edit");
    admin.purge(refused[2]).await.expect("purge");
    let payments = DeadLetterFilter::new().topic("payments");
    assert_eq!(admin.redrive_all(&payments, RedriveRate::default(), |_| ()).await.expect("redrive all"), 1);

    admin.live_messages(&LiveFilter::of("orders"), None, 10).await.expect("list live messages");
    admin.live_message(delayed[0]).await.expect("find a live message");
    admin.count_live("payments").await.expect("count live messages");
    admin.blocked_keys("payments", None, 10).await.expect("list blocked keys");
    admin.cancel_delayed(delayed[0]).await.expect("cancel");
    admin.cancel_waiting(delayed[1]).await.expect("cancel what waits");
    admin.send_now(delayed[2]).await.expect("send now");
    admin.pause("payments").await.expect("pause");
    assert_eq!(admin.paused().await.expect("paused").len(), 1);
    admin.resume("payments").await.expect("resume");

    admin.sent(sent[0]).await.expect("look up");
    admin.sent_of_key("orders", "42", None, 10).await.expect("look up by key");
    admin.count_sent("orders", 100).await.expect("count");
    admin.report_processed(sent[0]).await.expect("report");
    admin.report_processed(MessageId::new()).await.expect("report early");
    let late = UnprocessedFilter::of("orders").older_than(Duration::ZERO);
    admin.unprocessed(&late, None, 10).await.expect("list unprocessed");
    admin.resend(sent[1]).await.expect("resend");
    let entries = admin.audit(&AuditFilter::new().actor("alice"), None, 100).await.expect("audit").items;
    assert!(entries.len() >= 10, "{entries:?}");
}
