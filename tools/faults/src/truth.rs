//! What was committed, written by the transactions themselves and not by the library; and the payload of each message.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use uuid::Uuid;

use crate::wire::PLAIN;

/// The kind of messages that the broker refuses only for a while.
pub(crate) const REFUSED_AT_FIRST: &str = "curable";
/// The kind of rows that were never sent.
const OLD: &str = "old";
/// This many in a partition, and as many outside: more than one step of a pruner.
const OLD_ROWS: usize = 2_000;
/// The kind of rows that are deleted as soon as they are written.
const DEAD_ROW: &str = "dead row";

/// The truth in the database. `number` increases with each row, and within a key in the order of the commits, because
/// it is assigned under the key's lock.
pub(crate) const TABLE: &str = "CREATE TABLE truth (
    process integer NOT NULL, sequence bigint NOT NULL, number bigserial NOT NULL,
    message_id uuid, topic smallint NOT NULL, key text, not_before_ms bigint,
    noted_ms bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    PRIMARY KEY (process, sequence))";

/// Backdates rows of topics with this suffix beyond any retention, like a delay, an outage or a redrive. The database
/// does it, so that the row and what the hook hands over have the same age.
const AGED: &str = "CREATE FUNCTION age() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.created_at := NEW.created_at - interval '1 hour'; RETURN NEW; END $$;
    CREATE TRIGGER age BEFORE INSERT ON outbox_messages FOR EACH ROW WHEN (NEW.topic LIKE '%.aged') EXECUTE FUNCTION age()";

diesel::table! {
    truth (process, sequence) {
        process -> Integer,
        sequence -> BigInt,
        number -> BigInt,
        message_id -> Nullable<Uuid>,
        topic -> SmallInt,
        key -> Nullable<Text>,
        not_before_ms -> Nullable<BigInt>,
        noted_ms -> BigInt,
    }
}

diesel::table! {
    outbox_dead_letters (message_id) {
        message_id -> Uuid,
        kind -> Text,
        payload -> Nullable<Binary>,
    }
}

diesel::table! {
    outbox_history (message_id) {
        message_id -> Uuid,
        kind -> Text,
    }
}

/// Identifies a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MessageName {
    pub(crate) process: u32,
    pub(crate) sequence: u64,
}

/// A committed message.
#[derive(Debug, Clone, Queryable)]
pub(crate) struct Committed {
    process: i32,
    sequence: i64,
    pub(crate) number: i64,
    /// `None` if it was written before the message was enqueued.
    pub(crate) message_id: Option<Uuid>,
    /// The index in [`Topics::all`](crate::wire::Topics::all).
    pub(crate) topic: i16,
    pub(crate) key: Option<String>,
    /// For a delayed message: milliseconds since 1970.
    not_before_ms: Option<i64>,
    /// When this row was written, shortly before its commit: milliseconds since 1970.
    noted_ms: i64,
}

impl Committed {
    #[cfg(test)]
    pub(crate) fn new(name: MessageName, number: i64, message_id: Uuid, topic: i16, key: &str) -> Self {
        let (process, sequence) = (name.process.cast_signed(), name.sequence.cast_signed());
        let (message_id, key) = (Some(message_id), Some(key.to_owned()));
        Self { process, sequence, number, message_id, topic, key, not_before_ms: None, noted_ms: 0 }
    }

    #[cfg(test)]
    pub(crate) fn delayed_until(self, not_before_ms: i64) -> Self {
        Self { not_before_ms: Some(not_before_ms), ..self }
    }

    #[cfg(test)]
    pub(crate) fn noted_at(self, noted_ms: i64) -> Self {
        Self { noted_ms, ..self }
    }

    /// When it was written, shortly before its commit.
    pub(crate) fn noted_ms(&self) -> u64 {
        self.noted_ms.cast_unsigned()
    }

    /// The earliest time at which it may be sent.
    pub(crate) fn not_before_ms(&self) -> Option<u64> {
        self.not_before_ms.map(i64::cast_unsigned)
    }

    /// Whether the broker refuses it for good.
    pub(crate) fn is_always_refused(&self) -> bool {
        self.topic == PLAIN && self.name().is_always_refused()
    }

    pub(crate) fn name(&self) -> MessageName {
        MessageName { process: self.process.cast_unsigned(), sequence: self.sequence.cast_unsigned() }
    }
}

impl MessageName {
    /// The payload: the name, then bytes derived from it.
    pub(crate) fn payload(self) -> Vec<u8> {
        let mut bytes = [self.process.to_be_bytes().as_slice(), &self.sequence.to_be_bytes()].concat();
        let mut random = fastrand::Rng::with_seed(u64::from(self.process) << 32 ^ self.sequence);
        let length = random.usize(20..300);
        bytes.extend((0..length).map(|_| random.u8(..)));
        bytes
    }

    /// The name in a payload, if it has one.
    pub(crate) fn of_payload(payload: &[u8]) -> Option<Self> {
        let process = u32::from_be_bytes(*payload.first_chunk()?);
        let sequence = u64::from_be_bytes(*payload.get(4..)?.first_chunk()?);
        Some(Self { process, sequence })
    }

    /// Whether the broker must refuse it for good: one in three hundred of the plain topic.
    pub(crate) fn is_always_refused(self) -> bool {
        self.sequence % 300 == 7
    }

    /// Whether the broker must refuse it only for a while: as many more, if all features are on.
    pub(crate) fn is_refused_at_first(self) -> bool {
        self.sequence % 300 == 107
    }
}

/// What a transaction is about to commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note<'a> {
    pub(crate) name: MessageName,
    pub(crate) message_id: Option<Uuid>,
    pub(crate) topic: i16,
    pub(crate) key: Option<&'a str>,
    pub(crate) not_before_ms: Option<u64>,
}

/// Writes what is about to be committed, over the transaction's connection.
pub(crate) async fn note(connection: &mut AsyncPgConnection, note: Note<'_>) -> QueryResult<()> {
    let row = (
        truth::process.eq(note.name.process.cast_signed()),
        truth::sequence.eq(note.name.sequence.cast_signed()),
        truth::message_id.eq(note.message_id),
        truth::topic.eq(note.topic),
        truth::key.eq(note.key.map(str::to_owned)),
        truth::not_before_ms.eq(note.not_before_ms.map(u64::cast_signed)),
    );
    diesel::insert_into(truth::table).values(row).execute(connection).await.map(drop)
}

/// Everything that was committed.
pub(crate) async fn committed(connection: &mut AsyncPgConnection) -> Result<Vec<Committed>> {
    truth::table.load(connection).await.context("read the committed messages")
}

/// How many messages were committed.
pub(crate) async fn count(connection: &mut AsyncPgConnection) -> Result<i64> {
    truth::table.count().get_result(connection).await.context("count the committed messages")
}

/// A dead letter.
#[derive(Debug, Clone)]
pub(crate) struct DeadLetter {
    pub(crate) message_id: Uuid,
    /// The name in its payload.
    pub(crate) name: Option<MessageName>,
    /// Whether the broker accepts it by now, or soon.
    pub(crate) is_refused_at_first: bool,
}

/// Every dead letter.
pub(crate) async fn dead(connection: &mut AsyncPgConnection) -> Result<Vec<DeadLetter>> {
    let columns = (outbox_dead_letters::message_id, outbox_dead_letters::payload, outbox_dead_letters::kind);
    let rows: Vec<(Uuid, Option<Vec<u8>>, String)> =
        outbox_dead_letters::table.select(columns).load(connection).await.context("read the dead letters")?;
    let letter = |(message_id, payload, kind): (Uuid, Option<Vec<u8>>, String)| {
        let name = MessageName::of_payload(&payload.unwrap_or_default());
        DeadLetter { message_id, name, is_refused_at_first: kind == REFUSED_AT_FIRST }
    };
    Ok(rows.into_iter().map(letter).collect())
}

/// The number of dead letters that the broker would accept by now, or soon.
pub(crate) async fn redrivable(connection: &mut AsyncPgConnection) -> Result<i64> {
    let letters = outbox_dead_letters::table.filter(outbox_dead_letters::kind.eq(REFUSED_AT_FIRST));
    letters.count().get_result(connection).await.context("count the dead letters to be redriven")
}

/// The message ids in the history, without the rows of [`insert_expired_history`].
pub(crate) async fn kept(connection: &mut AsyncPgConnection) -> Result<Vec<Uuid>> {
    let kept = outbox_history::table.filter(outbox_history::kind.ne(OLD)).select(outbox_history::message_id);
    kept.load(connection).await.context("read the history")
}

/// Inserts expired rows into the history: some into their own day's partition, and some outside any partition. `year`
/// must differ in each call.
pub(crate) async fn insert_expired_history(connection: &mut AsyncPgConnection, year: usize) -> Result<()> {
    let partition = format!(
        "CREATE TABLE outbox_history_{year}0101 PARTITION OF outbox_history \
         FOR VALUES FROM ('{year}-01-01') TO ('{year}-01-02')"
    );
    let rows = format!(
        "INSERT INTO outbox_history (id, message_id, topic, lane, kind, headers, epoch, attempts, failures, errors, \
         created_at, sent_at, falls_on, awaits_processing) \
         SELECT n, gen_random_uuid(), 'old', -1, '{OLD}', '{{}}', 0, 0, 0, '[]'::jsonb, now(), now(), \
         CASE WHEN n <= {OLD_ROWS} THEN date '{year}-01-01' ELSE date '{year}-06-01' END, false \
         FROM generate_series(1, 2 * {OLD_ROWS}) AS n"
    );
    for sql in [partition, rows] {
        diesel::sql_query(sql).execute(connection).await.context("put old rows into the history")?;
    }
    Ok(())
}

/// The number of expired history rows.
pub(crate) async fn expired(connection: &mut AsyncPgConnection) -> Result<i64> {
    let query = diesel::sql_query(
        "SELECT count(*) AS count FROM outbox_history WHERE falls_on <= (statement_timestamp() AT TIME ZONE 'UTC')::date",
    );
    Ok(query.get_result::<Counted>(connection).await?.count)
}

#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

#[derive(QueryableByName)]
struct IndexRead {
    #[diesel(sql_type = Text)]
    index: String,
    #[diesel(sql_type = BigInt)]
    rows: i64,
}

#[derive(QueryableByName)]
struct Numbered {
    #[diesel(sql_type = Integer)]
    _number: i32,
}

/// The number of unsettled rows with an id up to `id`.
pub(crate) async fn live(connection: &mut AsyncPgConnection, id: i64) -> Result<i64> {
    let query = diesel::sql_query("SELECT count(*) AS count FROM outbox_messages WHERE id <= $1").bind::<BigInt, _>(id);
    Ok(query.get_result::<Counted>(connection).await?.count)
}

/// The highest id of an existing row.
pub(crate) async fn newest(connection: &mut AsyncPgConnection) -> Result<i64> {
    let query = diesel::sql_query("SELECT coalesce(max(id), 0) AS count FROM outbox_messages");
    Ok(query.get_result::<Counted>(connection).await?.count)
}

/// The last assigned id.
pub(crate) async fn last_id(connection: &mut AsyncPgConnection) -> Result<i64> {
    let query = diesel::sql_query("SELECT last_value AS count FROM outbox_messages_id_seq");
    Ok(query.get_result::<Counted>(connection).await?.count)
}

/// Backdates the messages of aged topics.
pub(crate) async fn make_aged(connection: &mut AsyncPgConnection) -> Result<()> {
    connection.batch_execute(AGED).await.context("create the trigger that ages rows")
}

/// Writes and deletes this many due rows in one transaction. They are visible to nobody. While an older snapshot is
/// open, they cannot be removed from the indexes either.
pub(crate) async fn leave_dead_rows(connection: &mut AsyncPgConnection, topic: &str, rows: u64) -> Result<()> {
    let sql = format!(
        "BEGIN; INSERT INTO outbox_messages (message_id, topic, kind, headers, due_at)
             SELECT gen_random_uuid(), '{topic}', '{DEAD_ROW}', '[]', now() - interval '1 minute' FROM generate_series(1, {rows});
         DELETE FROM outbox_messages WHERE topic = '{topic}' AND kind = '{DEAD_ROW}'; COMMIT"
    );
    connection.batch_execute(&sql).await.context("write dead rows")
}

/// Removes the dead rows, and their index entries.
pub(crate) async fn vacuum(connection: &mut AsyncPgConnection) -> Result<()> {
    // Without the empty pages at the table's end: removing them takes a lock that the applications would wait for.
    connection.batch_execute("VACUUM (TRUNCATE false) outbox_messages").await.context("vacuum")
}

/// Index entries of the messages table that statements have read so far, by index.
pub(crate) async fn rows_read(connection: &mut AsyncPgConnection) -> Result<BTreeMap<String, u64>> {
    let query = diesel::sql_query(
        "SELECT indexrelname::text AS index, idx_tup_read AS rows FROM pg_stat_user_indexes WHERE relname = 'outbox_messages'",
    );
    let read: Vec<IndexRead> = query.load(connection).await?;
    Ok(read.into_iter().map(|read| (read.index, read.rows.cast_unsigned())).collect())
}

/// How long the server takes to scan the index entries of a topic's rows, including dead ones, as a full scan does.
pub(crate) async fn walk(connection: &mut AsyncPgConnection, topic: &str) -> Result<Duration> {
    connection.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await?;
    let sql = "SELECT count(*) AS count FROM outbox_messages WHERE topic = $1 AND lane < 0 AND due_at < now()";
    let mut shortest = Duration::MAX;
    // The first scan may have to read pages from disk.
    for _ in 0..2 {
        let begun = Instant::now();
        let query = diesel::sql_query(sql).bind::<Text, _>(topic);
        query.get_result::<Counted>(connection).await.context("scan the dead rows")?;
        shortest = shortest.min(begun.elapsed());
    }
    Ok(shortest)
}

/// Assigns ids again, from `id` on, like a sequence that lags behind after a fail-over.
pub(crate) async fn reuse_ids(connection: &mut AsyncPgConnection, id: i64) -> Result<()> {
    let query = diesel::sql_query("SELECT setval('outbox_messages_id_seq', greatest($1, 1))::int AS _number")
        .bind::<BigInt, _>(id);
    query.get_result::<Numbered>(connection).await?;
    Ok(())
}
