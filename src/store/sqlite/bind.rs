use std::sync::Arc;

use diesel::QueryResult;
use diesel::query_builder::AstPass;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel::sqlite::Sqlite;
use serde_json::{Value, json};

use crate::clock::millis;
use crate::message::MessageId;
use crate::store::statement::Dialect;
use crate::store::{Held, LookSpec, Return, RowKey};

/// What the statements bind. SQLite has no arrays: a group is a JSON array, so that one of any size is the same text.
#[derive(Debug)]
pub enum Bind {
    Text(Arc<str>),
    BigInt(i64),
    Json(String),
    OptionalText(Option<String>),
    OptionalBytes(Option<Vec<u8>>),
    /// Message ids, one behind the other: JSON has no bytes, and comparing hex would spell out each row's id.
    MessageIds(Vec<u8>),
}

impl Bind {
    pub(super) fn json(group: impl Iterator<Item = Value>) -> Self {
        Self::Json(Value::Array(group.collect()).to_string())
    }

    pub(super) fn message_ids(ids: impl Iterator<Item = MessageId>) -> Self {
        Self::MessageIds(ids.flat_map(|id| id.as_uuid().into_bytes()).collect())
    }

    /// `[[topic, the first mark, or how many ms ago], ..]`, and how many ms ahead.
    pub(super) fn look(spec: &LookSpec) -> [Self; 2] {
        let topics = spec.topics.iter().map(|at| {
            let (first, past) = at.from.bounds();
            json!([at.topic.as_ref(), first, past.map(millis)])
        });
        [Self::json(topics), Self::BigInt(millis(spec.bounded_ahead()))]
    }

    /// The message ids and `[lane, ..]` of what comes back.
    pub(super) fn back(back: &[Return]) -> [Self; 2] {
        let lanes = Self::json(back.iter().map(|back| back.lane_column().into()));
        [Self::message_ids(back.iter().map(|back| back.message_id)), lanes]
    }

    /// `[[id], ..]` and the message ids.
    pub(super) fn keys(rows: &[RowKey]) -> [Self; 2] {
        let ids = rows.iter().map(|row| json!([row.id]));
        [Self::json(ids), Self::message_ids(rows.iter().map(|row| row.message_id))]
    }

    /// `[[id, epoch, ..], ..]` and the message ids.
    pub(super) fn held<T>(rows: &[T], held: impl Fn(&T) -> Held, rest: impl Fn(&T) -> Vec<Value>) -> [Self; 2] {
        let group = rows.iter().map(|row| {
            let mut columns = vec![held(row).key.id.into(), held(row).epoch.into()];
            columns.extend(rest(row));
            Value::Array(columns)
        });
        [Self::json(group), Self::message_ids(rows.iter().map(|row| held(row).key.message_id))]
    }
}

impl Dialect for Sqlite {
    type Bind = Bind;

    fn bind<'b>(bind: &'b Bind, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::BigInt(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::Json(group) => out.push_bind_param_value_only::<Text, str>(group),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
            Bind::MessageIds(ids) => out.push_bind_param_value_only::<Binary, [u8]>(ids),
        }
    }
}
