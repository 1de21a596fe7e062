use std::time::{Duration, SystemTime};

use diesel::QueryResult;
use diesel::query_builder::AstPass;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel::sqlite::Sqlite;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::clock::millis;
use crate::message::MessageId;
use crate::store::schema::IndexNaming;
use crate::store::sql::binds::Binds;
use crate::store::sql::dialect::{Bind, BindOf, Dialect};
use crate::store::sql::row_batch::{Column, RowBatch, columns_json};
use crate::store::sql::text::{Placeholders, Step, Syntax};
use crate::store::{PollSpec, Requeue};

/// Message ids, concatenated: JSON has no bytes, and comparing hex would convert each row's id.
#[derive(Debug, Clone)]
pub struct Ids(Vec<u8>);

// SQLite has no arrays: a batch is a JSON array, so that a batch of any size has the same text.
impl Dialect for Sqlite {
    const SYNTAX: &'static Syntax = &Syntax {
        database: "sqlite",
        store: "SqliteStore",
        indexes: IndexNaming::ByIndex,
        placeholders: Placeholders::Numbered,
    };

    const SPAWNS_CALLS: bool = true;

    type Native = Ids;

    type Extra = ();

    fn bind<'b>(bind: &'b BindOf<Self>, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::Number(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
            Bind::Native(Ids(ids)) => out.push_bind_param_value_only::<Binary, [u8]>(ids),
        }
    }
}

impl Binds for Sqlite {
    const LAST_CLASS: &'static str = "json_extract(errors, '$[#-1].class')";

    fn id(id: &Uuid) -> BindOf<Self> {
        ids([id].into_iter())
    }

    fn optional_id_bind(id: Option<&Uuid>) -> BindOf<Self> {
        Bind::OptionalBytes(id.map(|id| id.into_bytes().to_vec()))
    }

    fn messages(messages: &[MessageId]) -> BindOf<Self> {
        ids(messages.iter().map(MessageId::as_uuid))
    }

    fn rows(ids: &[i64]) -> BindOf<Self> {
        Bind::json(ids.iter().map(|id| Value::from(*id)))
    }

    /// `[[id, column, ..], ..]` and the message ids.
    fn row_batch(batch: &RowBatch, step: &Step) -> Vec<BindOf<Self>> {
        let rows = batch.json(step.columns, |key| vec![key.id.into()]);
        vec![Bind::Text(rows.into()), ids(batch.rows.iter().map(|row| row.message_id.as_uuid()))]
    }

    fn columns(columns: &[Column]) -> Vec<BindOf<Self>> {
        vec![Bind::Text(columns_json(columns).into())]
    }

    /// The message ids and `[lane, ..]` of requeued messages.
    fn requeues(requeues: &[Requeue], _step: &Step) -> Vec<BindOf<Self>> {
        let lanes = Bind::json(requeues.iter().map(|requeue| requeue.lane_column().into()));
        vec![ids(requeues.iter().map(|requeue| requeue.message_id.as_uuid())), lanes]
    }

    fn duration(time: Duration) -> i64 {
        millis(time)
    }

    fn instant_bind(at: SystemTime) -> BindOf<Self> {
        Bind::Number(millis(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }
}

fn ids<'i>(ids: impl Iterator<Item = &'i Uuid>) -> BindOf<Sqlite> {
    Bind::Native(Ids(ids.flat_map(|id| id.into_bytes()).collect()))
}

/// `[[topic, the first instant, or how many ms ago], ..]`, and how many ms ahead.
pub(super) fn poll_binds(spec: &PollSpec) -> [BindOf<Sqlite>; 2] {
    let topics = spec.topics.iter().map(|at| {
        let (first, past) = at.from.bounds();
        json!([at.topic.as_ref(), first, past.map(millis)])
    });
    [Bind::json(topics), Bind::Number(millis(spec.bounded_ahead()))]
}
