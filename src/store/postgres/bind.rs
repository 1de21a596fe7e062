use std::sync::Arc;

use diesel::QueryResult;
use diesel::data_types::PgTimestamp;
use diesel::pg::Pg;
use diesel::query_builder::AstPass;
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::ctid::{Ctid, Tid};
use crate::clock::millis;
use crate::message::MessageId;
use crate::store::statement::Dialect;
use crate::store::{Held, LookFrom, LookSpec, Return, RowKey};

/// What the statements bind: arrays for groups, so that a group of any size is the same text.
#[derive(Debug)]
pub enum Bind {
    Text(Arc<str>),
    BigInt(i64),
    Instant(PgTimestamp),
    OptionalInstants(Vec<Option<PgTimestamp>>),
    OptionalBigInts(Vec<Option<i64>>),
    BigInts(Vec<i64>),
    Ints(Vec<i32>),
    Ctids(Vec<Ctid>),
    Uuid(Uuid),
    Uuids(Vec<Uuid>),
    Texts(Vec<String>),
    OptionalText(Option<String>),
    OptionalBytes(Option<Vec<u8>>),
}

impl Bind {
    pub(super) fn message_id(id: MessageId) -> Self {
        Self::Uuid(*id.as_uuid())
    }

    pub(super) fn message_ids(ids: &[MessageId]) -> Self {
        Self::Uuids(ids.iter().map(|id| *id.as_uuid()).collect())
    }

    /// The message ids and the lanes of what comes back.
    pub(super) fn back(back: &[Return]) -> [Self; 2] {
        let back = Return::each_once(back);
        let ids = back.iter().map(|back| *back.message_id.as_uuid()).collect();
        [Self::Uuids(ids), Self::Ints(back.iter().map(Return::lane_column).collect())]
    }

    /// The topics of a look, where each begins, and how many ms ahead all of them end.
    pub(super) fn look(spec: &LookSpec) -> [Self; 4] {
        let topics = spec.topics.iter().map(|at| at.topic.as_ref().to_owned()).collect();
        let (first, past) = spec.topics.iter().map(|at| instant_or_past(at.from)).unzip();
        let ahead = Self::BigInt(millis(spec.bounded_ahead()));
        [Self::Texts(topics), Self::OptionalInstants(first), Self::OptionalBigInts(past), ahead]
    }

    /// The ids and message ids of `rows`.
    pub(super) fn keys(rows: impl Iterator<Item = RowKey> + Clone) -> [Self; 2] {
        let ids = rows.clone().map(|row| row.id).collect();
        [Self::BigInts(ids), Self::Uuids(rows.map(|row| *row.message_id.as_uuid()).collect())]
    }

    /// The ids, message ids and epochs of `rows`.
    pub(super) fn held(rows: impl Iterator<Item = Held> + Clone) -> [Self; 3] {
        let [ids, message_ids] = Self::keys(rows.clone().map(|row| row.key));
        [ids, message_ids, Self::Ints(rows.map(|row| row.epoch).collect())]
    }
}

fn instant_or_past(from: LookFrom) -> (Option<PgTimestamp>, Option<i64>) {
    let (first, past) = from.bounds();
    (first.map(PgTimestamp), past.map(millis))
}

impl Dialect for Pg {
    type Bind = Bind;

    fn bind<'b>(bind: &'b Bind, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::BigInt(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::Instant(instant) => out.push_bind_param_value_only::<Timestamptz, _>(instant),
            Bind::OptionalInstants(instants) => {
                out.push_bind_param_value_only::<Array<Nullable<Timestamptz>>, _>(instants)
            }
            Bind::OptionalBigInts(numbers) => out.push_bind_param_value_only::<Array<Nullable<BigInt>>, _>(numbers),
            Bind::BigInts(numbers) => out.push_bind_param_value_only::<Array<BigInt>, _>(numbers),
            Bind::Ints(numbers) => out.push_bind_param_value_only::<Array<Integer>, _>(numbers),
            Bind::Ctids(places) => out.push_bind_param_value_only::<Array<Tid>, _>(places),
            Bind::Uuid(id) => out.push_bind_param_value_only::<SqlUuid, _>(id),
            Bind::Uuids(ids) => out.push_bind_param_value_only::<Array<SqlUuid>, _>(ids),
            Bind::Texts(texts) => out.push_bind_param_value_only::<Array<Text>, _>(texts),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
        }
    }
}
