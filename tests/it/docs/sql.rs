//! The SQL of the documents, run as it stands there on the database that its first line names.

use std::sync::atomic::{AtomicU32, Ordering};

use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::migration::MigrationSource;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::query_builder::SqlQuery;
use diesel::query_dsl::methods::LoadQuery;
use diesel::sql_types::BigInt;
use diesel_outbox::TableNames;
use diesel_outbox::migrations::{EmbeddedMigrations, Migrations};
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::read;

/// How a database writes what the test puts into its dead letters.
struct Dialect {
    /// The first line of its blocks, in any order with others.
    name: &'static str,
    key: &'static str,
    message_ids: [&'static str; 2],
    payload: &'static str,
    now: &'static str,
}

const POSTGRES: Dialect = Dialect {
    name: "PostgreSQL",
    key: "key",
    message_ids: ["'01900000-0000-7000-8000-000000000001'", "'01900000-0000-7000-8000-000000000002'"],
    payload: r"'\x01'",
    now: "clock_timestamp()",
};

const MYSQL: Dialect = Dialect {
    name: "MariaDB",
    key: "`key`",
    message_ids: ["X'01900000000070008000000000000001'", "X'01900000000070008000000000000002'"],
    payload: "X'01'",
    now: "UTC_TIMESTAMP(6)",
};

const SQLITE: Dialect =
    Dialect { name: "SQLite", key: "key", now: "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)", ..MYSQL };

/// The blocks of a page for a database under `heading`, up to the next one of its level.
fn blocks(page: &str, heading: &str, name: &str) -> Vec<String> {
    let text = read(page);
    let level = heading.split(' ').next().unwrap_or_default();
    let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let section = section.split(&format!("\n{level} ")).next().unwrap_or_default();
    let blocks = section.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.lines().next().is_some_and(|line| line.contains(name))).map(str::to_owned).collect()
}

fn names() -> TableNames {
    static OUTBOX_COUNT: AtomicU32 = AtomicU32::new(0);
    let prefix = format!("docs_{}_{}_", std::process::id(), OUTBOX_COUNT.fetch_add(1, Ordering::Relaxed));
    TableNames::default().prefix(prefix).expect("a plain name")
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Two dead letters, of which the documented statements move the one of the topic `orders`, once.
fn redrive<C>(conn: &mut C, dialect: &Dialect)
where
    C: diesel::Connection + LoadConnection + diesel::connection::BoxableConnection<C::Backend>,
    C::Backend: EmbeddedMigrations,
    for<'a> SqlQuery: LoadQuery<'a, C, Count>,
{
    let names = names();
    for migration in MigrationSource::<C::Backend>::migrations(&Migrations::new(names.clone())).expect("migrations") {
        migration.run(conn).expect("migrate");
    }
    let named = |sql: &str| {
        sql.replace("outbox_messages", &names.messages()).replace("outbox_dead_letters", &names.dead_letters())
    };
    let Dialect { key, payload, now, message_ids: [order, invoice], name } = dialect;
    for (id, message_id, topic) in [(71, order, "orders"), (72, invoice, "invoices")] {
        let insert = format!(
            "INSERT INTO outbox_dead_letters (id, message_id, topic, lane, {key}, kind, headers, payload, due_at, epoch, attempts, \
             failures, errors, created_at, reason) VALUES ({id}, {message_id}, '{topic}', -1, '42', 'k', '[]', {payload}, {now}, 3, \
             12, 14, '[]', {now}, 'attempts: refused')"
        );
        conn.batch_execute(&named(&insert)).expect("a dead letter");
    }
    let documented = blocks("docs/dead-letters.md", "### Redrive in SQL", name);
    assert_eq!(documented.len(), 1, "one block for {name}");
    // The second time there is nothing left to move.
    for _ in 0..2 {
        conn.batch_execute(&named(&documented[0])).unwrap_or_else(|error| panic!("{error}\n{}", documented[0]));
    }
    let mut count = |of: &str| {
        let sql = named(&format!("SELECT count(*) AS count FROM {of}"));
        diesel::sql_query(sql).get_result::<Count>(conn).expect("count").count
    };
    let moved = format!(
        "outbox_messages WHERE id = 71 AND message_id = {order} AND topic = 'orders' AND lane = -1 AND {key} = '42' AND kind = 'k' \
         AND headers = '[]' AND payload = {payload} AND epoch = 4 AND attempts = 0 AND failures = 0 AND due_at <= {now} \
         AND deliver_at IS NULL"
    );
    assert_eq!(count(&moved), 1, "moved, due, under the next epoch");
    assert_eq!(count("outbox_messages"), 1);
    assert_eq!(count("outbox_dead_letters WHERE topic = 'invoices'"), 1, "the other one stays");
    assert_eq!(count("outbox_dead_letters"), 1);
}

#[test]
fn dead_letters_are_redriven_on_postgres() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    redrive(&mut PgConnection::establish(&url).expect("connect"), &POSTGRES);
}

#[test]
fn dead_letters_are_redriven_on_mariadb() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Mariadb) else { return };
    redrive(&mut MysqlConnection::establish(&url).expect("connect"), &MYSQL);
}

#[test]
fn dead_letters_are_redriven_on_sqlite() {
    redrive(&mut SqliteConnection::establish(":memory:").expect("connect"), &SQLITE);
}

#[test]
fn queries_for_operators_run_on_postgres() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    let mut conn = PgConnection::establish(&url).expect("connect");
    let names = names();
    for migration in MigrationSource::<diesel::pg::Pg>::migrations(&Migrations::new(names.clone())).expect("migrations")
    {
        migration.run(&mut conn).expect("migrate");
    }
    let places = [("docs/operations.md", "## Alerts"), ("docs/dead-letters.md", "## By hand, in SQL")];
    let queries: Vec<String> =
        places.into_iter().flat_map(|(page, heading)| blocks(page, heading, "PostgreSQL")).collect();
    assert!(queries.len() >= 3, "{queries:?}");
    for query in queries {
        let sql =
            query.replace("outbox_messages", &names.messages()).replace("outbox_dead_letters", &names.dead_letters());
        conn.batch_execute(&sql).unwrap_or_else(|error| panic!("{error}\n{query}"));
    }
}
