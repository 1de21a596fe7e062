//! Fills the tables: 600,000 live messages of `orders` in each state, 300,000 of `payments` in lanes, 100,000 delayed `reminders`, and
//! 100,000 dead letters.

use crate::database::{Database, Kind, LANES};

pub(crate) const LIVE: i64 = 1_000_000;
pub(crate) const DEAD: i64 = 100_000;

const ORDERS: i64 = 600_000;
const PAYMENTS: i64 = 300_000;
const REMINDERS: i64 = 100_000;

/// Failed messages in lanes.
const FAILED: i64 = 100;

/// How a database writes what differs.
struct Dialect {
    /// A source of rows `n`, from 1 to a number.
    rows: fn(i64) -> String,
    /// A message id for the number `n`.
    message_id: &'static str,
    /// So many milliseconds from now, and the beginning of time.
    instant: fn(&str) -> String,
    epoch: &'static str,
    key: &'static str,
    text: fn(&str) -> String,
    /// Makes bytes of a text.
    bytes: fn(&str) -> String,
    /// What is done first, so that the rest goes fast.
    prepare: &'static str,
    /// Makes JSON of a text in a CASE.
    json: &'static str,
    analyze: &'static str,
}

const POSTGRES: Dialect = Dialect {
    rows: |count| format!("generate_series(1, {count}) n"),
    message_id: "gen_random_uuid()",
    instant: |millis| format!("now() + ({millis}) * interval '1 ms'"),
    epoch: "'epoch'",
    key: "key",
    text: |number| format!("({number})::text"),
    bytes: str::to_owned,
    prepare: "ALTER TABLE {m} SET UNLOGGED; ALTER TABLE {d} SET UNLOGGED",
    json: "::jsonb",
    analyze: "ANALYZE {m}; ANALYZE {d}",
};

const MARIADB: Dialect = Dialect {
    rows: |count| format!("(SELECT CAST(seq AS signed) AS n FROM seq_1_to_{count}) s"),
    message_id: "UNHEX(CONCAT({space}, LPAD(HEX(n), 30, '0')))",
    instant: |millis| format!("UTC_TIMESTAMP(6) + INTERVAL ({millis}) * 1000 MICROSECOND"),
    epoch: "'1970-01-01 00:00:00'",
    key: "`key`",
    text: |number| format!("CAST({number} AS CHAR)"),
    bytes: str::to_owned,
    prepare: "SELECT 1",
    json: "",
    analyze: "ANALYZE TABLE {m}; ANALYZE TABLE {d}",
};

const SQLITE: Dialect = Dialect {
    rows: |count| {
        format!("(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {count}) SELECT n FROM r)")
    },
    message_id: "randomblob(16)",
    instant: |millis| format!("CAST((julianday('now') - 2440587.5) * 86400000 AS integer) + ({millis})"),
    epoch: "0",
    key: "key",
    text: |number| format!("CAST({number} AS text)"),
    bytes: |text| format!("CAST({text} AS blob)"),
    prepare: "SELECT 1",
    json: "",
    analyze: "ANALYZE",
};

/// As much as an order has.
const PAYLOAD: &str = r#"'{"order_id":4711,"customer":"somebody","lines":[{"article":"A-1","count":2},{"article":"B-7","count":1}],"total_cents":1999,"note":"Please ring twice."}'"#;

const HEADERS: &str = r#"'[["tenant","1"],["source","shop"]]'"#;

const ERRORS: &str = r#"'[{"at":"2026-11-26T08:00:00Z","node":"0190b2a0-5c1e-7000-8000-000000000001","class":"record","error":"amount is negative"}]'"#;

const HOUR: i64 = 3_600_000;

pub(crate) async fn fill(database: &Database) {
    let dialect = match database.kind {
        Kind::Postgres => POSTGRES,
        Kind::Mariadb => MARIADB,
        Kind::Sqlite => SQLITE,
    };
    let statements = [
        dialect.prepare.to_owned(),
        dialect.orders(),
        dialect.payments(),
        dialect.reminders(),
        dialect.dead_letters("orders", "refused: amount is negative", 60_000, "3"),
        dialect.dead_letters("payments", "attempts: the receiver did not answer", 30_000, "4"),
        dialect.dead_letters("reminders", "poisoned: it was claimed 5 times", 10_000, "5"),
        dialect.analyze.to_owned(),
    ];
    for statement in statements {
        database.run(&statement).await;
    }
    assert_eq!(database.number("SELECT count(*) AS number FROM {m}").await, LIVE);
    assert_eq!(database.number("SELECT count(*) AS number FROM {d}").await, DEAD);
}

impl Dialect {
    fn id(&self, space: &str) -> String {
        self.message_id.replace("{space}", &format!("'0{space}'"))
    }

    /// A quarter each is due, leased, delayed and retrying.
    fn orders(&self) -> String {
        let Self { key, json, .. } = self;
        let later = (self.instant)(&format!("{HOUR} + n * 2000"));
        format!(
            "INSERT INTO {{m}} (message_id, topic, {key}, kind, headers, payload, due_at, deliver_at, epoch, attempts, failures, errors) \
             SELECT {id}, 'orders', {number}, 'placed', {HEADERS}, {payload}, \
               CASE n % 4 WHEN 0 THEN {due} WHEN 1 THEN {leased} ELSE {later} END, \
               CASE n % 4 WHEN 2 THEN {later} END, CASE n % 4 WHEN 1 THEN 1 WHEN 3 THEN 3 ELSE 0 END, \
               CASE n % 4 WHEN 3 THEN 2 ELSE 0 END, CASE n % 4 WHEN 3 THEN 2 ELSE 0 END, \
               CASE n % 4 WHEN 3 THEN {ERRORS}{json} ELSE '[]'{json} END FROM {rows}",
            id = self.id("0"),
            payload = (self.bytes)(PAYLOAD),
            number = (self.text)("n % 1000"),
            due = (self.instant)(&format!("n - {ORDERS} - {HOUR}")),
            leased = (self.instant)("600000"),
            rows = (self.rows)(ORDERS),
        )
    }

    fn payments(&self) -> String {
        let Self { key, epoch, json, .. } = self;
        format!(
            "INSERT INTO {{m}} (message_id, topic, {key}, kind, headers, payload, lane, due_at, failures, errors) \
             SELECT {id}, 'payments', {number}, 'paid', {HEADERS}, {payload}, n % {LANES}, {epoch}, \
               CASE WHEN n <= {FAILED} THEN 1 ELSE 0 END, CASE WHEN n <= {FAILED} THEN {ERRORS}{json} ELSE '[]'{json} END \
             FROM {rows}",
            id = self.id("1"),
            payload = (self.bytes)(PAYLOAD),
            number = (self.text)("n % 1000"),
            rows = (self.rows)(PAYMENTS),
        )
    }

    fn reminders(&self) -> String {
        let Self { key, .. } = self;
        let later = (self.instant)("n * 10000");
        format!(
            "INSERT INTO {{m}} (message_id, topic, {key}, kind, headers, payload, due_at, deliver_at) \
             SELECT {id}, 'reminders', {number}, 'reminder', {HEADERS}, {payload}, {later}, {later} FROM {rows}",
            id = self.id("2"),
            payload = (self.bytes)(PAYLOAD),
            number = (self.text)("n"),
            rows = (self.rows)(REMINDERS),
        )
    }

    /// They died one after the other.
    fn dead_letters(&self, topic: &str, reason: &str, count: i64, space: &str) -> String {
        let Self { key, json, .. } = self;
        let lane = if topic == "payments" { "n % 16" } else { "-1" };
        format!(
            "INSERT INTO {{d}} (id, message_id, topic, lane, {key}, kind, headers, payload, due_at, epoch, attempts, failures, errors, \
               created_at, reason, dead_at) \
             SELECT 10000000 + n, {id}, '{topic}', {lane}, {number}, 'placed', {HEADERS}, {payload}, {now}, 0, 5, 5, {ERRORS}{json}, \
               {now}, '{reason}', {died} FROM {rows}",
            id = self.id(space),
            payload = (self.bytes)(PAYLOAD),
            number = (self.text)("n % 1000"),
            now = (self.instant)("0"),
            died = (self.instant)(&format!("(n - {count}) * 10 - 1000")),
            rows = (self.rows)(count),
        )
    }
}
