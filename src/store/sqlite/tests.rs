//! The query plans that SQLite reports for the statements: each by an index, none over a whole table.

use diesel::connection::{Connection, SimpleConnection};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text as SqlText;
use diesel::sqlite::{Sqlite, SqliteConnection};

use crate::naming::TableNames;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::statements::Sql;
use crate::store::sql::text::StatementSql;

#[derive(QueryableByName)]
struct Planned {
    #[diesel(sql_type = SqlText)]
    detail: String,
}

struct Database {
    conn: SqliteConnection,
    sql: Sql,
}

impl Database {
    fn open() -> Self {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        for migration in [
            include_str!("../../../migrations/outbox/sqlite/0000outbox01_messages/up.sql"),
            include_str!("../../../migrations/outbox/sqlite/0000outbox02_lanes/up.sql"),
            include_str!("../../../migrations/outbox/sqlite/0000outbox04_paused_topics/up.sql"),
        ] {
            conn.batch_execute(migration).unwrap();
        }
        Self { conn, sql: Sql::new(Sqlite::SYNTAX, &TableNames::default()) }
    }

    fn plan(&mut self, sql: &str) -> Vec<String> {
        let steps: Vec<Planned> = sql_query(format!("EXPLAIN QUERY PLAN {sql}")).load(&mut self.conn).unwrap();
        steps.into_iter().map(|step| step.detail).collect()
    }
}

/// The texts of some of the statements.
fn texts<'t>(which: impl IntoIterator<Item = &'t StatementSql>) -> Vec<String> {
    which.into_iter().flat_map(StatementSql::steps).map(|step| step.sql.clone()).collect()
}

#[test]
fn no_statement_reads_a_whole_table() {
    let mut database = Database::open();
    let Sql { live, claims, due, lanes, lane_rows, .. } = &database.sql;
    let of_live = [
        &live.confirm,
        &live.remaining,
        &live.settle,
        &live.settle_dead_letters,
        &live.extend,
        &live.fail,
        &live.dead_letter,
    ];
    let of_claims = [&claims.claim, &claims.lease, &claims.settle_claimed, &claims.lease_in_flight, &claims.release];
    let of_polls = [&due.poll, &due.poll_with_pauses, &due.backlog, &lanes.first_from, &lanes.read, &lanes.write];
    let of_lanes = [&lane_rows.rows, &lane_rows.fail_in_lanes, &lane_rows.dead_letter_from_lanes];
    let mut all = texts(of_live.into_iter().chain(of_claims).chain(of_polls).chain(of_lanes));
    all.push(lane_rows.entries.steps()[1].sql.clone());
    for text in all {
        let plan = database.plan(&text);
        let scans = |step: &String| ["SCAN m", "SCAN l", "SCAN outbox_"].iter().any(|scan| step.starts_with(scan));
        // The recursions over topics, which jump from one to the next in the index.
        let hops = |step: &String| ["SCAN live", "SCAN l"].contains(&step.as_str()) && text.contains("RECURSIVE live");
        assert!(!plan.iter().any(|step| scans(step) && !hops(step)), "{text}\n{plan:#?}");
    }
}

#[test]
fn due_rows_are_found_by_the_index() {
    let mut database = Database::open();
    let claim = database.sql.claims.claim.first().sql.clone();
    let claim = database.plan(&claim);
    let range = "USING INDEX outbox_messages_due (topic=? AND lane=? AND due_at>? AND due_at<?)";
    assert!(claim.iter().any(|step| step.contains(range)), "{claim:#?}");
    let poll = database.sql.due.poll.first().sql.clone();
    let poll = database.plan(&poll);
    let first = "USING COVERING INDEX outbox_messages_due (topic=? AND lane=? AND due_at>? AND due_at<?)";
    assert!(poll.iter().any(|step| step.contains(first)), "{poll:#?}");
    assert!(!poll.iter().any(|step| step.contains("TEMP B-TREE")), "{poll:#?}");
}

#[test]
fn rows_of_a_lane_are_found_by_the_index() {
    let mut database = Database::open();
    let entries = database.sql.lane_rows.entries.first().sql.clone();
    let entries = database.plan(&entries);
    let range = "USING INDEX outbox_messages_due (topic=? AND lane=? AND due_at=? AND id>?)";
    assert!(entries.iter().any(|step| step.contains(range)), "{entries:#?}");
    assert!(!entries.iter().any(|step| step.contains("TEMP B-TREE")), "{entries:#?}");
}
