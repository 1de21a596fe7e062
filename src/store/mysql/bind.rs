use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use diesel::QueryResult;
use diesel::mysql::Mysql;
use diesel::query_builder::AstPass;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::message::MessageId;
use crate::store::schema::IndexNaming;
use crate::store::sql::binds::Binds;
use crate::store::sql::dialect::{Bind, BindOf, Dialect, micros};
use crate::store::sql::row_batch::{Column, RowBatch, columns_json};
use crate::store::sql::text::{Placeholders, Step, Syntax};
use crate::store::{PollFrom, PollSpec, PollTopic, Requeue};

// A batch is one JSON array, which JSON_TABLE reads as a table. A list of placeholders would be another text for every size, each
// prepared anew. Rows are locked in the order of the array.
impl Dialect for Mysql {
    const SYNTAX: &'static Syntax = &Syntax {
        database: "mysql",
        store: "MysqlStore",
        indexes: IndexNaming::ByTable,
        placeholders: Placeholders::Positional,
    };

    type Native = Infallible;

    type Extra = ();

    fn bind<'b>(bind: &'b BindOf<Self>, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::Number(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
            Bind::Native(never) => match *never {},
        }
    }
}

impl Binds for Mysql {
    const LAST_CLASS: &'static str =
        "JSON_UNQUOTE(JSON_EXTRACT(errors, CONCAT('$[', GREATEST(JSON_LENGTH(errors), 1) - 1, '].class')))";

    fn id(id: &Uuid) -> BindOf<Self> {
        Bind::Text(hex(id).into())
    }

    fn optional_id_bind(id: Option<&Uuid>) -> BindOf<Self> {
        Bind::OptionalText(id.map(hex))
    }

    fn messages(messages: &[MessageId]) -> BindOf<Self> {
        Bind::json(messages.iter().map(|id| json!([hex(id.as_uuid())])))
    }

    fn rows(ids: &[i64]) -> BindOf<Self> {
        Bind::json(ids.iter().map(|id| json!([id])))
    }

    /// `[id, message id, column, ..]` of each row.
    fn row_batch(batch: &RowBatch, step: &Step) -> Vec<BindOf<Self>> {
        let row = batch.json(step.columns, |key| vec![key.id.into(), hex(key.message_id.as_uuid()).into()]);
        vec![Bind::Text(row.into())]
    }

    fn columns(columns: &[Column]) -> Vec<BindOf<Self>> {
        vec![Bind::Text(columns_json(columns).into())]
    }

    /// `[message id, lane]` of each requeued message.
    fn requeues(requeues: &[Requeue], step: &Step) -> Vec<BindOf<Self>> {
        let row = |requeue: &Requeue| {
            let mut row = vec![hex(requeue.message_id.as_uuid()).into(), requeue.lane_column().into()];
            row.truncate(step.columns);
            Value::Array(row)
        };
        vec![Bind::json(requeues.iter().map(row))]
    }

    /// Ids are unsigned there.
    fn after(id: i64) -> i64 {
        id.max(0)
    }

    fn duration(time: Duration) -> i64 {
        micros(time)
    }

    fn instant_bind(at: SystemTime) -> BindOf<Self> {
        Bind::Number(micros(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }

    fn instant_placeholder(placeholder: String) -> String {
        format!("TIMESTAMPADD(MICROSECOND, {placeholder}, TIMESTAMP'1970-01-01 00:00:00')")
    }

    /// A column may have the year 0, which is no instant for the time functions.
    fn raw_instant_placeholder(placeholder: String) -> String {
        format!("COALESCE({}, FROM_DAYS(0))", Self::instant_placeholder(placeholder))
    }

    fn id_placeholder(placeholder: String) -> String {
        format!("UNHEX({placeholder})")
    }

    const KEY: &'static str = "`key`";
}

fn hex(id: &Uuid) -> String {
    id.simple().to_string()
}

/// The binds of one topic of a poll.
pub(super) fn poll_binds(at: &PollTopic, spec: &PollSpec, has_pauses: bool) -> impl Iterator<Item = BindOf<Mysql>> {
    let topic = || Bind::text(&at.topic);
    let ahead = || Bind::Number(micros(spec.bounded_ahead()));
    let (first, since) = poll_bounds(at.from);
    let first = [topic(), Bind::Number(first), Bind::Number(since), ahead()];
    first.into_iter().chain([topic(), ahead()]).chain(has_pauses.then(topic))
}

/// The first instant, and from when on, counted from now.
pub(super) fn poll_bounds(from: PollFrom) -> (i64, i64) {
    let (first, past) = from.bounds();
    (first.unwrap_or(i64::MIN), past.map_or(i64::MIN, |past| -micros(past)))
}
