//! Consumers that handle copies without an inbox: by a version, and by a state machine. SQLite in memory.
//!
//! ```sh
//! cargo run --example without_inbox
//! ```
//!
//! Both recognise a copy by the data itself, so there is nothing to remember and nothing to remove. A version suits messages that
//! carry a whole state; a state machine suits messages that are steps. Everything else is for the inbox
//! (`diesel_outbox::inbox`).
#![allow(clippy::print_stdout, reason = "it tells what it does")]

use diesel::prelude::*;
use diesel::upsert::excluded;

diesel::table! {
    prices (article) {
        article -> Text,
        cents -> BigInt,
        version -> BigInt,
    }
}

diesel::table! {
    orders (id) {
        id -> BigInt,
        state -> Text,
    }
}

/// The whole state of an article's price. The producer raises the version with each change.
#[derive(Clone, Copy)]
struct PriceChanged {
    article: &'static str,
    cents: i64,
    version: i64,
}

/// Writes the price unless a newer one is there; returns whether it did. One statement, so two nodes cannot come between each other.
fn apply_price(conn: &mut SqliteConnection, event: PriceChanged) -> QueryResult<bool> {
    // The prelude's `filter` is for queries.
    use diesel::query_dsl::methods::FilterDsl as _;
    let PriceChanged { article, cents, version } = event;
    let written = diesel::insert_into(prices::table)
        .values((prices::article.eq(article), prices::cents.eq(cents), prices::version.eq(version)))
        .on_conflict(prices::article)
        .do_update()
        .set((prices::cents.eq(excluded(prices::cents)), prices::version.eq(excluded(prices::version))))
        .filter(prices::version.lt(excluded(prices::version)))
        .execute(conn)?;
    Ok(written > 0)
}

/// A step of an order.
#[derive(Clone, Copy)]
enum Step {
    Paid,
    Shipped,
}

impl Step {
    /// The state before it, and the one behind it.
    fn states(self) -> (&'static str, &'static str) {
        match self {
            Self::Paid => ("placed", "paid"),
            Self::Shipped => ("paid", "shipped"),
        }
    }
}

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The order is in the step's state, or beyond it.
    Duplicate,
    /// An earlier step has not arrived: the message has to come again later.
    TooEarly,
}

/// Takes the step if the order is in the state before it. What else the step does belongs into the same transaction, behind this.
fn take_step(conn: &mut SqliteConnection, id: i64, step: Step) -> QueryResult<Outcome> {
    const STATES: [&str; 3] = ["placed", "paid", "shipped"];
    let (from, to) = step.states();
    conn.transaction(|conn| {
        let order = orders::table.find(id).filter(orders::state.eq(from));
        if diesel::update(order).set(orders::state.eq(to)).execute(conn)? > 0 {
            return Ok(Outcome::Done);
        }
        let state: String = orders::table.find(id).select(orders::state).first(conn)?;
        let place = |state: &str| STATES.iter().position(|known| *known == state);
        Ok(if place(&state) >= place(to) { Outcome::Duplicate } else { Outcome::TooEarly })
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut conn = SqliteConnection::establish(":memory:")?;
    diesel::sql_query(
        "CREATE TABLE prices (article text PRIMARY KEY, cents integer NOT NULL, version integer NOT NULL)",
    )
    .execute(&mut conn)?;
    diesel::sql_query("CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL)").execute(&mut conn)?;

    let first = PriceChanged { article: "tea", cents: 350, version: 1 };
    let second = PriceChanged { cents: 380, version: 2, ..first };
    let applied = [first, first, second, first, second].map(|event| apply_price(&mut conn, event));
    let applied = applied.into_iter().collect::<QueryResult<Vec<bool>>>()?;
    assert_eq!(applied, [true, false, true, false, false]);
    let price: (i64, i64) = prices::table.find("tea").select((prices::cents, prices::version)).first(&mut conn)?;
    assert_eq!(price, (380, 2));
    println!("tea costs 380 cents, although its first price came three times, and last");

    diesel::insert_into(orders::table).values((orders::id.eq(17), orders::state.eq("placed"))).execute(&mut conn)?;
    let steps = [Step::Shipped, Step::Paid, Step::Paid, Step::Shipped, Step::Paid, Step::Shipped];
    let outcomes = steps.map(|step| take_step(&mut conn, 17, step)).into_iter().collect::<QueryResult<Vec<_>>>()?;
    let expected =
        [Outcome::TooEarly, Outcome::Done, Outcome::Duplicate, Outcome::Done, Outcome::Duplicate, Outcome::Duplicate];
    assert_eq!(outcomes, expected);
    println!("order 17 was paid and shipped once");
    Ok(())
}
