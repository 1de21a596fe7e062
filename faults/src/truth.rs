//! What was committed, written by the transactions themselves and not by the library; and what each message has to say.

use anyhow::{Context, Result};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

/// The truth in the database: `number` rises with each row, and within a key in the order of the commits, because it is
/// drawn behind the lock of the key.
pub(crate) const TABLE: &str = "CREATE TABLE truth (
    process integer NOT NULL, sequence bigint NOT NULL, number bigserial NOT NULL,
    message_id uuid, ordered boolean NOT NULL, key text,
    PRIMARY KEY (process, sequence))";

diesel::table! {
    truth (process, sequence) {
        process -> Integer,
        sequence -> BigInt,
        number -> BigInt,
        message_id -> Nullable<Uuid>,
        ordered -> Bool,
        key -> Nullable<Text>,
    }
}

diesel::table! {
    outbox_dead_letters (message_id) {
        message_id -> Uuid,
        payload -> Nullable<Binary>,
    }
}

/// Which message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) process: u32,
    pub(crate) sequence: u64,
}

/// A committed message.
#[derive(Debug, Clone, Queryable)]
pub(crate) struct Committed {
    process: i32,
    sequence: i64,
    pub(crate) number: i64,
    /// None where it was written before the message was enqueued.
    pub(crate) message_id: Option<Uuid>,
    pub(crate) ordered: bool,
    pub(crate) key: Option<String>,
}

impl Committed {
    #[cfg(test)]
    pub(crate) fn new(name: Name, number: i64, message_id: Uuid, ordered: bool, key: &str) -> Self {
        let (process, sequence) = (name.process.cast_signed(), name.sequence.cast_signed());
        Self { process, sequence, number, message_id: Some(message_id), ordered, key: Some(key.to_owned()) }
    }

    pub(crate) fn name(&self) -> Name {
        Name { process: self.process.cast_unsigned(), sequence: self.sequence.cast_unsigned() }
    }
}

impl Name {
    /// The payload: name, then bytes that follow from it.
    pub(crate) fn payload(self) -> Vec<u8> {
        let mut bytes = [self.process.to_be_bytes().as_slice(), &self.sequence.to_be_bytes()].concat();
        let mut random = fastrand::Rng::with_seed(u64::from(self.process) << 32 ^ self.sequence);
        let length = random.usize(20..300);
        bytes.extend((0..length).map(|_| random.u8(..)));
        bytes
    }

    /// The name in a payload, as far as it has one.
    pub(crate) fn of_payload(payload: &[u8]) -> Option<Self> {
        let process = u32::from_be_bytes(*payload.first_chunk()?);
        let sequence = u64::from_be_bytes(*payload.get(4..)?.first_chunk()?);
        Some(Self { process, sequence })
    }

    /// Whether the broker is to refuse it for good: one in three hundred of the plain topic.
    pub(crate) fn is_doomed(self) -> bool {
        self.sequence % 300 == 7
    }
}

/// Writes what is about to be committed, with the connection of the transaction.
pub(crate) async fn note(
    connection: &mut AsyncPgConnection,
    name: Name,
    message_id: Option<Uuid>,
    ordered: bool,
    key: Option<&str>,
) -> QueryResult<()> {
    let row = (
        truth::process.eq(name.process.cast_signed()),
        truth::sequence.eq(name.sequence.cast_signed()),
        truth::message_id.eq(message_id),
        truth::ordered.eq(ordered),
        truth::key.eq(key.map(str::to_owned)),
    );
    diesel::insert_into(truth::table).values(row).execute(connection).await.map(drop)
}

/// Everything that was committed.
pub(crate) async fn committed(connection: &mut AsyncPgConnection) -> Result<Vec<Committed>> {
    truth::table.load(connection).await.context("read what was committed")
}

/// Every dead letter: its message id, and the name in its payload.
pub(crate) async fn dead(connection: &mut AsyncPgConnection) -> Result<Vec<(Uuid, Option<Name>)>> {
    let rows: Vec<(Uuid, Option<Vec<u8>>)> =
        outbox_dead_letters::table.load(connection).await.context("read the dead letters")?;
    Ok(rows.into_iter().map(|(id, payload)| (id, Name::of_payload(&payload.unwrap_or_default()))).collect())
}

#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

#[derive(QueryableByName)]
struct Numbered {
    #[diesel(sql_type = Integer)]
    _number: i32,
}

/// Rows not settled yet, of those with an id up to `id`.
pub(crate) async fn live(connection: &mut AsyncPgConnection, id: i64) -> Result<i64> {
    let query = diesel::sql_query("SELECT count(*) AS count FROM outbox_messages WHERE id <= $1").bind::<BigInt, _>(id);
    Ok(query.get_result::<Counted>(connection).await?.count)
}

/// The highest id of a row that is there.
pub(crate) async fn newest(connection: &mut AsyncPgConnection) -> Result<i64> {
    let query = diesel::sql_query("SELECT coalesce(max(id), 0) AS count FROM outbox_messages");
    Ok(query.get_result::<Counted>(connection).await?.count)
}

/// Where the ids of rows are.
pub(crate) async fn last_id(connection: &mut AsyncPgConnection) -> Result<i64> {
    let query = diesel::sql_query("SELECT last_value AS count FROM outbox_messages_id_seq");
    Ok(query.get_result::<Counted>(connection).await?.count)
}

/// Gives ids once more, from `id` on, as a sequence does that lags behind after a fail-over.
pub(crate) async fn reuse_ids(connection: &mut AsyncPgConnection, id: i64) -> Result<()> {
    let query = diesel::sql_query("SELECT setval('outbox_messages_id_seq', greatest($1, 1))::int AS _number")
        .bind::<BigInt, _>(id);
    query.get_result::<Numbered>(connection).await?;
    Ok(())
}
