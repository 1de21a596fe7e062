//! What consumers have done, written by their handlers in the transactions of the records, and not by the library.

use anyhow::{Context, Result};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_outbox::consumer::ParkedRecords;

use crate::truth::MessageName;
use crate::wire::{FENCED, Group, ORDERED, TWICE};

/// The ledger in the database. It has no key of the message: a second effect must not be refused by it.
pub(crate) const TABLE: &str = "CREATE TABLE ledger (
    number bigserial PRIMARY KEY, consumer smallint NOT NULL, topic smallint NOT NULL,
    process integer NOT NULL, sequence bigint NOT NULL, key text);
    CREATE INDEX ledger_of_message ON ledger (process, sequence)";

/// At most this many parked records are looked at in one step.
const PARKED_ROWS: usize = 1_000;

diesel::table! {
    ledger (number) {
        number -> BigInt,
        consumer -> SmallInt,
        topic -> SmallInt,
        process -> Integer,
        sequence -> BigInt,
        key -> Nullable<Text>,
    }
}

/// What a handler did: that it processed this message.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub(crate) struct Processed {
    /// Grows with each row, and within a key in the order of the transactions.
    pub(crate) number: i64,
    /// The number of its [`Group`].
    pub(crate) consumer: i16,
    pub(crate) topic: i16,
    process: i32,
    sequence: i64,
    pub(crate) key: Option<String>,
}

impl Processed {
    #[cfg(test)]
    pub(crate) fn new(number: i64, group: Group, topic: i16, name: MessageName, key: &str) -> Self {
        let (process, sequence) = (name.process.cast_signed(), name.sequence.cast_signed());
        Self { number, consumer: group.number(), topic, process, sequence, key: Some(key.to_owned()) }
    }

    pub(crate) fn name(&self) -> MessageName {
        MessageName { process: self.process.cast_unsigned(), sequence: self.sequence.cast_unsigned() }
    }
}

/// Writes a row, in the caller's transaction.
pub(crate) async fn note(
    connection: &mut AsyncPgConnection,
    group: Group,
    topic: i16,
    name: MessageName,
    key: Option<&str>,
) -> QueryResult<()> {
    let row = (
        ledger::consumer.eq(group.number()),
        ledger::topic.eq(topic),
        ledger::process.eq(name.process.cast_signed()),
        ledger::sequence.eq(name.sequence.cast_signed()),
        ledger::key.eq(key),
    );
    diesel::insert_into(ledger::table).values(row).execute(connection).await.map(drop)
}

/// Everything that was done, in its order.
pub(crate) async fn all(connection: &mut AsyncPgConnection) -> Result<Vec<Processed>> {
    ledger::table.order(ledger::number).load(connection).await.context("read the ledger")
}

#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

async fn count(connection: &mut AsyncPgConnection, sql: &str, binds: [i64; 2]) -> Result<i64> {
    let query = diesel::sql_query(sql).bind::<BigInt, _>(binds[0]).bind::<BigInt, _>(binds[1]);
    Ok(query.get_result::<Counted>(connection).await.context("count in the ledger")?.count)
}

/// How many of the messages that were committed with a number between these have no effect yet.
pub(crate) async fn unprocessed(connection: &mut AsyncPgConnection, after: i64, until: i64) -> Result<i64> {
    let mut missing = 0;
    for group in Group::ALL {
        let topics = if group == Group::Inbox { format!("{ORDERED}, {FENCED}") } else { FENCED.to_string() };
        let sql = format!(
            "SELECT count(*) AS count FROM truth t WHERE t.number > $1 AND t.number <= $2 AND t.topic IN ({topics})
               AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.process = t.process AND l.sequence = t.sequence AND l.consumer = {})",
            group.number()
        );
        missing += count(connection, &sql, [after, until]).await?;
    }
    Ok(missing)
}

/// How many different messages of the driver were processed.
pub(crate) async fn delivered_twice(connection: &mut AsyncPgConnection) -> Result<i64> {
    let sql = format!("SELECT count(DISTINCT sequence) AS count FROM ledger WHERE topic = {TWICE} AND $1 = $2");
    count(connection, &sql, [0, 0]).await
}

/// The last number of the truth.
pub(crate) async fn last_committed(connection: &mut AsyncPgConnection) -> Result<i64> {
    count(connection, "SELECT coalesce(max(number), 0) AS count FROM truth WHERE $1 = $2", [0, 0]).await
}

/// Releases every parked record of the run's consumers, as a person would. Returns how many were parked.
pub(crate) async fn release_parked(connection: &mut AsyncPgConnection, run: &str) -> Result<usize> {
    let mut found = 0;
    for group in Group::ALL {
        let parked = ParkedRecords::new(group.name(run));
        for record in parked.list_async(connection, 0, PARKED_ROWS).await.context("list parked records")? {
            found += 1;
            if !record.is_released {
                parked.release_async(connection, record.id).await.context("release a parked record")?;
            }
        }
    }
    Ok(found)
}
