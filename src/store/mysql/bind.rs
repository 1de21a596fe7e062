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
use crate::store::sql::group::{Column, Group, of_columns};
use crate::store::statement::{Bind, BindOf, Dialect, micros};
use crate::store::text::{Placeholders, Step, Words};
use crate::store::{LookAt, LookFrom, LookSpec, Return};

// A group is one JSON array, which JSON_TABLE makes a table of: a list of placeholders would be another text for every size, and prepared
// anew each time. Its rows are locked in the order in which they are named.
impl Dialect for Mysql {
    const WORDS: &'static Words = &Words {
        database: "mysql",
        store: "MysqlStore",
        indexes: IndexNaming::ByTable,
        placeholders: Placeholders::Places,
    };

    type Own = Infallible;

    type Beside = ();

    fn bind<'b>(bind: &'b BindOf<Self>, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::Number(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
            Bind::Own(never) => match *never {},
        }
    }
}

impl Binds for Mysql {
    fn id(id: &Uuid) -> BindOf<Self> {
        Bind::Text(hex(id).into())
    }

    fn messages(messages: &[MessageId]) -> BindOf<Self> {
        Bind::json(messages.iter().map(|id| json!([hex(id.as_uuid())])))
    }

    fn rows(ids: &[i64]) -> BindOf<Self> {
        Bind::json(ids.iter().map(|id| json!([id])))
    }

    /// `[id, message id, column, ..]` of each row.
    fn group(group: &Group, step: &Step) -> Vec<BindOf<Self>> {
        let row = group.json(step.columns, |key| vec![key.id.into(), hex(key.message_id.as_uuid()).into()]);
        vec![Bind::Text(row.into())]
    }

    fn columns(columns: &[Column]) -> Vec<BindOf<Self>> {
        vec![Bind::Text(of_columns(columns).into())]
    }

    /// `[message id, lane]` of what comes back.
    fn back(back: &[Return], step: &Step) -> Vec<BindOf<Self>> {
        let row = |back: &Return| {
            let mut row = vec![hex(back.message_id.as_uuid()).into(), back.lane_column().into()];
            row.truncate(step.columns);
            Value::Array(row)
        };
        vec![Bind::json(back.iter().map(row))]
    }

    /// They are unsigned.
    fn after(id: i64) -> i64 {
        id.max(0)
    }

    fn span(time: Duration) -> i64 {
        micros(time)
    }

    fn moment(at: SystemTime) -> BindOf<Self> {
        Bind::Number(micros(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }

    fn instant_at(placeholder: String) -> String {
        format!("TIMESTAMPADD(MICROSECOND, {placeholder}, TIMESTAMP'1970-01-01 00:00:00')")
    }

    fn id_at(placeholder: String) -> String {
        format!("UNHEX({placeholder})")
    }

    const KEY: &'static str = "`key`";
}

fn hex(id: &Uuid) -> String {
    id.simple().to_string()
}

/// One topic of a look.
pub(super) fn look(at: &LookAt, spec: &LookSpec, has_pauses: bool) -> impl Iterator<Item = BindOf<Mysql>> {
    let topic = || Bind::text(&at.topic);
    let ahead = || Bind::Number(micros(spec.bounded_ahead()));
    let (first, since) = look_bounds(at.from);
    let first = [topic(), Bind::Number(first), Bind::Number(since), ahead()];
    first.into_iter().chain([topic(), ahead()]).chain(has_pauses.then(topic))
}

/// The first mark, and from when on, counted from now.
pub(super) fn look_bounds(from: LookFrom) -> (i64, i64) {
    let (first, past) = from.bounds();
    (first.unwrap_or(i64::MIN), past.map_or(i64::MIN, |past| -micros(past)))
}
