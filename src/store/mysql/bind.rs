use std::collections::HashSet;
use std::sync::Arc;

use diesel::QueryResult;
use diesel::mysql::Mysql;
use diesel::query_builder::AstPass;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use serde::Serialize;

use crate::message::MessageId;
use crate::store::statement::{Dialect, micros};
use crate::store::{Held, Kept, LookAt, LookFrom, LookSpec, Return, RowKey};

/// What the statements bind. A group is one JSON array, which JSON_TABLE makes a table of: a list of placeholders would
/// be another text for every size, and prepared anew each time.
#[derive(Debug)]
pub enum Bind {
    Text(Arc<str>),
    BigInt(i64),
    Json(String),
    OptionalText(Option<String>),
    OptionalBytes(Option<Vec<u8>>),
}

impl Bind {
    /// A group.
    pub(super) fn json<T: Serialize>(rows: impl Iterator<Item = T>) -> Self {
        let rows: Vec<T> = rows.collect();
        let json = serde_json::to_string(&rows);
        Self::Json(json.unwrap_or_else(|error| unreachable!("numbers and texts always encode as JSON: {error}")))
    }

    /// One message id.
    pub(super) fn message_id(id: MessageId) -> Self {
        Self::Text(hex(id).into())
    }

    /// `[message id]` of each message.
    pub(super) fn message_ids(ids: impl Iterator<Item = MessageId>) -> Self {
        Self::json(ids.map(|id| (hex(id),)))
    }

    /// `[message id, lane]` of what comes back and could be locked.
    pub(super) fn back(back: &[Return], locked: &[RowKey]) -> Self {
        let locked: HashSet<MessageId> = locked.iter().map(|key| key.message_id).collect();
        let back = Return::each_once(back).into_iter().filter(|back| locked.contains(&back.message_id));
        Self::json(back.map(|back| (hex(back.message_id), back.lane_column())))
    }

    /// `[id, message id]` of each row, ids ascending: rows are locked in the order in which they are named.
    pub(super) fn keys(rows: impl Iterator<Item = RowKey>) -> Self {
        Self::json(ascending(rows, |row| row.id).map(|row| (row.id, hex(row.message_id))))
    }

    /// The same in the order of message ids: dead letters are found, and locked, by these.
    pub(super) fn letters(rows: impl Iterator<Item = RowKey>) -> Self {
        let mut rows: Vec<RowKey> = rows.collect();
        rows.sort_unstable_by_key(|row| row.message_id);
        Self::json(rows.into_iter().map(|row| (row.id, hex(row.message_id))))
    }

    /// One topic of a look.
    pub(super) fn look(at: &LookAt, spec: &LookSpec, has_pauses: bool) -> impl Iterator<Item = Self> {
        let topic = || Self::Text(Arc::clone(&at.topic));
        let ahead = || Self::BigInt(micros(spec.bounded_ahead()));
        let (first, since) = look_bounds(at.from);
        let first = [topic(), Self::BigInt(first), Self::BigInt(since), ahead()];
        first.into_iter().chain([topic(), ahead()]).chain(has_pauses.then(topic))
    }

    /// `[id, message id, epoch]` of each row, ids ascending.
    pub(super) fn held(rows: impl Iterator<Item = Held>) -> Self {
        Self::json(ascending(rows, |row| row.key.id).map(|row| (row.key.id, hex(row.key.message_id), row.epoch)))
    }

    /// `[message id, id, days, awaits processing]` of each row.
    pub(super) fn kept(rows: &[Kept]) -> Self {
        let row = |row: &Kept| {
            let Kept { key, keep } = row;
            (hex(key.message_id), key.id, keep.days, u8::from(keep.awaits_processing))
        };
        Self::json(rows.iter().map(row))
    }

    /// `[id]` of each row, ids ascending.
    pub(super) fn ids(rows: impl Iterator<Item = RowKey>) -> Self {
        Self::json(ascending(rows, |row| row.id).map(|row| (row.id,)))
    }
}

/// The first mark, and from when on, counted from now.
pub(super) fn look_bounds(from: LookFrom) -> (i64, i64) {
    let (first, past) = from.bounds();
    (first.unwrap_or(i64::MIN), past.map_or(i64::MIN, |past| -micros(past)))
}

fn ascending<T>(rows: impl Iterator<Item = T>, id: impl Fn(&T) -> i64) -> impl Iterator<Item = T> {
    let mut rows: Vec<T> = rows.collect();
    rows.sort_unstable_by_key(id);
    rows.into_iter()
}

fn hex(id: MessageId) -> String {
    id.as_uuid().simple().to_string()
}

impl Dialect for Mysql {
    type Bind = Bind;

    fn bind<'b>(bind: &'b Bind, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::BigInt(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::Json(json) => out.push_bind_param_value_only::<Text, str>(json),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
        }
    }
}
