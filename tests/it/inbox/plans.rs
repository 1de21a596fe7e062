//! Claims and prunes of a large inbox read by its primary key.

use std::sync::{Arc, Mutex};

use diesel::connection::InstrumentationEvent;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel::{MysqlConnection, PgConnection, SqliteConnection};
use diesel_outbox::inbox::{Inbox, InboxError, InboxKey};
use diesel_outbox::{MessageId, OutboxBackend};

use super::inbox;
use super::node::{Node, Place, SyncNode};

/// As many as load in a second.
const ENTRIES: i64 = 100_000;

fn filled<N: Node>(inbox: &Inbox, rows: &str) -> Option<Place<N>> {
    let place = Place::<N>::fresh(inbox)?;
    place.node().run(&format!("INSERT INTO outbox_inbox (message_id, consumer) {rows}")).expect("fill");
    Some(place)
}

/// What new messages, copies, batches and a prune do.
fn work<C>(conn: &mut C, inbox: &Inbox)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let keys: Vec<InboxKey> = (0..100).map(|_| MessageId::new().into()).collect();
    for _ in 0..2 {
        let claimed = conn.transaction(|conn| {
            let first = inbox.claim(conn, keys[0])?;
            let claims = inbox.claim_many(conn, &keys)?;
            Ok::<_, InboxError>(first == claims[0])
        });
        claimed.expect("claims");
    }
    inbox.prune(conn).expect("prune");
}

/// The statements that read or write the inbox, without their binds.
fn statements<C>(conn: &mut C, inbox: &Inbox) -> Vec<String>
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event {
            let text = query.to_string();
            let text = text.split(" -- binds").next().unwrap_or_default().trim();
            if ["WITH", "INSERT", "SELECT", "DELETE"].iter().any(|verb| text.starts_with(verb))
                && text.contains("outbox_inbox ")
            {
                seen.lock().expect("unpoisoned").push(text.to_owned());
            }
        }
    });
    work(conn, inbox);
    let mut statements = log.lock().expect("unpoisoned").clone();
    statements.sort();
    statements.dedup();
    statements
}

#[derive(QueryableByName)]
struct Step {
    #[diesel(sql_type = Text, column_name = "detail")]
    detail: String,
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

#[test]
fn mariadb_reads_few_rows() {
    let inbox = inbox("billing");
    let rows = format!("SELECT UNHEX(LPAD(HEX(seq), 32, '0')), 1 FROM seq_1_to_{ENTRIES}");
    let Some(place) = filled::<SyncNode<MysqlConnection>>(&inbox, &rows) else { return };
    let mut conn = MysqlConnection::establish(&place.url).expect("connect");
    let reads = "SELECT CAST(SUM(variable_value) AS char) AS detail FROM information_schema.session_status \
                 WHERE variable_name LIKE 'HANDLER_READ%'";
    let count = |conn: &mut MysqlConnection| {
        let step: Step = diesel::sql_query(reads).get_result(conn).expect("count");
        step.detail.parse::<f64>().expect("a number")
    };
    let before = count(&mut conn);
    work(&mut conn, &inbox);
    // The counter's own reads are a few hundred.
    let read = count(&mut conn) - before;
    assert!(read < 10_000.0, "{read} rows of {ENTRIES}");
}

#[test]
fn sqlite_searches_by_the_primary_key() {
    let inbox = inbox("billing");
    let rows = format!(
        "SELECT CAST(printf('%016d', value) AS blob), 1 FROM (WITH RECURSIVE c (value) AS \
         (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < {ENTRIES}) SELECT value FROM c)"
    );
    let Some(place) = filled::<SyncNode<SqliteConnection>>(&inbox, &rows) else { return };
    let mut conn = SqliteConnection::establish(&place.url).expect("open");
    let statements = statements(&mut conn, &inbox);
    assert!(statements.len() >= 3, "{statements:?}");
    for statement in statements {
        let steps: Vec<Step> =
            diesel::sql_query(format!("EXPLAIN QUERY PLAN {statement}")).load(&mut conn).expect("a plan");
        let scans: Vec<&String> =
            steps.iter().map(|step| &step.detail).filter(|detail| detail.starts_with("SCAN outbox_inbox")).collect();
        assert!(scans.is_empty(), "{statement}: {scans:?}");
    }
}

#[test]
fn postgres_finds_what_is_to_be_removed_by_the_primary_key() {
    let inbox = inbox("billing");
    let rows = format!("SELECT lpad(to_hex(g), 32, '0')::uuid, 1 FROM generate_series(1, {ENTRIES}) g");
    let Some(place) = filled::<SyncNode<PgConnection>>(&inbox, &rows) else { return };
    let mut conn = PgConnection::establish(&place.url).expect("connect");
    diesel::sql_query("ANALYZE outbox_inbox_default").execute(&mut conn).expect("analyze");
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event
            && query.to_string().contains("outbox_inbox_default")
        {
            seen.lock().expect("unpoisoned").push(query.to_string());
        }
    });
    work(&mut conn, &inbox);
    // Not the DDL, which creates what is there now.
    let is_query = |text: &String| text.starts_with("DELETE") || text.trim_start().starts_with("WITH");
    let statements: Vec<String> =
        log.lock().expect("unpoisoned").iter().filter(|text| is_query(text)).cloned().collect();
    assert_eq!(statements.len(), 2, "{statements:?}");
    for statement in statements {
        let text = statement.split(" -- binds").next().unwrap_or_default();
        let lines: Vec<Line> = diesel::sql_query(format!("EXPLAIN {text}")).load(&mut conn).expect("a plan");
        let plan = lines.iter().map(|line| line.line.as_str()).collect::<Vec<_>>().join("\n");
        assert!(
            plan.contains("outbox_inbox_default_pkey") && !plan.contains("Seq Scan on outbox_inbox_default"),
            "{plan}"
        );
    }
}
