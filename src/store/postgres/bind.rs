use std::time::{Duration, SystemTime};

use diesel::QueryResult;
use diesel::data_types::PgTimestamp;
use diesel::pg::Pg;
use diesel::query_builder::AstPass;
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::ctid::{Ctid, Tid};
use super::instants::timestamp;
use super::notice_connection::NoticeConnection;
use crate::clock::millis;
use crate::message::MessageId;
use crate::store::schema::IndexNaming;
use crate::store::sql::binds::Binds;
use crate::store::sql::group::{Column, Group};
use crate::store::statement::{Bind, Dialect};
use crate::store::text::{Placeholders, Step, Words};
use crate::store::{LookFrom, LookSpec, Return};

/// Instants, and arrays for groups, so that a group of any size is the same text.
#[derive(Debug, Clone)]
pub enum Own {
    Instant(PgTimestamp),
    OptionalInstants(Vec<Option<PgTimestamp>>),
    OptionalNumbers(Vec<Option<i64>>),
    Numbers(Vec<i64>),
    Ints(Vec<i32>),
    Ctids(Vec<Ctid>),
    Uuid(Uuid),
    Uuids(Vec<Uuid>),
    Texts(Vec<String>),
}

impl From<Own> for Bind<Own> {
    fn from(own: Own) -> Self {
        Self::Own(own)
    }
}

impl Dialect for Pg {
    const WORDS: &'static Words = &Words {
        database: "postgres",
        store: "PostgresStore",
        indexes: IndexNaming::ByTable,
        placeholders: Placeholders::Dollars,
    };

    type Own = Own;

    type Beside = Option<NoticeConnection>;

    fn bind<'b>(bind: &'b Bind<Own>, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::Number(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
            Bind::Own(own) => match own {
                Own::Instant(instant) => out.push_bind_param_value_only::<Timestamptz, _>(instant),
                Own::OptionalInstants(all) => out.push_bind_param_value_only::<Array<Nullable<Timestamptz>>, _>(all),
                Own::OptionalNumbers(all) => out.push_bind_param_value_only::<Array<Nullable<BigInt>>, _>(all),
                Own::Numbers(numbers) => out.push_bind_param_value_only::<Array<BigInt>, _>(numbers),
                Own::Ints(numbers) => out.push_bind_param_value_only::<Array<Integer>, _>(numbers),
                Own::Ctids(places) => out.push_bind_param_value_only::<Array<Tid>, _>(places),
                Own::Uuid(id) => out.push_bind_param_value_only::<SqlUuid, _>(id),
                Own::Uuids(ids) => out.push_bind_param_value_only::<Array<SqlUuid>, _>(ids),
                Own::Texts(texts) => out.push_bind_param_value_only::<Array<Text>, _>(texts),
            },
        }
    }
}

impl Binds for Pg {
    fn id(id: &Uuid) -> Bind<Own> {
        Own::Uuid(*id).into()
    }

    fn messages(messages: &[MessageId]) -> Bind<Own> {
        Own::Uuids(messages.iter().map(|id| *id.as_uuid()).collect()).into()
    }

    fn rows(ids: &[i64]) -> Bind<Own> {
        Own::Numbers(ids.to_vec()).into()
    }

    fn group(group: &Group, _step: &Step) -> Vec<Bind<Own>> {
        let ids = Own::Numbers(group.rows.iter().map(|row| row.id).collect());
        let messages = Own::Uuids(group.rows.iter().map(|row| *row.message_id.as_uuid()).collect());
        [ids.into(), messages.into()].into_iter().chain(Self::columns(&group.columns)).collect()
    }

    fn columns(columns: &[Column]) -> Vec<Bind<Own>> {
        let own = |column: &Column| match column {
            Column::Ints(column) => Own::Ints(column.clone()),
            Column::Numbers(column) => Own::Numbers(column.clone()),
            Column::Texts(column) => Own::Texts(column.clone()),
        };
        columns.iter().map(|column| own(column).into()).collect()
    }

    fn back(back: &[Return], _step: &Step) -> Vec<Bind<Own>> {
        let ids = back.iter().map(|back| *back.message_id.as_uuid()).collect();
        vec![Own::Uuids(ids).into(), Own::Ints(back.iter().map(Return::lane_column).collect()).into()]
    }

    fn span(time: Duration) -> i64 {
        millis(time)
    }

    fn moment(at: SystemTime) -> Bind<Own> {
        Own::Instant(timestamp(at)).into()
    }
}

/// The topics of a look, where each begins, and how many ms ahead all of them end.
pub(super) fn look(spec: &LookSpec) -> [Bind<Own>; 4] {
    let topics = spec.topics.iter().map(|at| at.topic.as_ref().to_owned()).collect();
    let (first, past) = spec.topics.iter().map(|at| instant_or_past(at.from)).unzip();
    let ahead = Bind::Number(millis(spec.bounded_ahead()));
    [Own::Texts(topics).into(), Own::OptionalInstants(first).into(), Own::OptionalNumbers(past).into(), ahead]
}

fn instant_or_past(from: LookFrom) -> (Option<PgTimestamp>, Option<i64>) {
    let (first, past) = from.bounds();
    (first.map(PgTimestamp), past.map(millis))
}
