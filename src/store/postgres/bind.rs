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
use crate::store::sql::dialect::{Bind, Dialect};
use crate::store::sql::row_batch::{Column, RowBatch};
use crate::store::sql::text::{Placeholders, Step, Syntax};
use crate::store::{PollFrom, PollSpec, Requeue};

/// Instants, and arrays for batches, so that a batch of any size has the same text.
#[derive(Debug, Clone)]
pub enum PgBind {
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

impl From<PgBind> for Bind<PgBind> {
    fn from(own: PgBind) -> Self {
        Self::Native(own)
    }
}

impl Dialect for Pg {
    const SYNTAX: &'static Syntax = &Syntax {
        database: "postgres",
        store: "PostgresStore",
        indexes: IndexNaming::ByTable,
        placeholders: Placeholders::Dollar,
    };

    type Native = PgBind;

    type Extra = Option<NoticeConnection>;

    fn bind<'b>(bind: &'b Bind<PgBind>, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        match bind {
            Bind::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
            Bind::Number(number) => out.push_bind_param_value_only::<BigInt, _>(number),
            Bind::OptionalText(text) => out.push_bind_param_value_only::<Nullable<Text>, _>(text),
            Bind::OptionalBytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
            Bind::Native(own) => match own {
                PgBind::Instant(instant) => out.push_bind_param_value_only::<Timestamptz, _>(instant),
                PgBind::OptionalInstants(all) => out.push_bind_param_value_only::<Array<Nullable<Timestamptz>>, _>(all),
                PgBind::OptionalNumbers(all) => out.push_bind_param_value_only::<Array<Nullable<BigInt>>, _>(all),
                PgBind::Numbers(numbers) => out.push_bind_param_value_only::<Array<BigInt>, _>(numbers),
                PgBind::Ints(numbers) => out.push_bind_param_value_only::<Array<Integer>, _>(numbers),
                PgBind::Ctids(places) => out.push_bind_param_value_only::<Array<Tid>, _>(places),
                PgBind::Uuid(id) => out.push_bind_param_value_only::<SqlUuid, _>(id),
                PgBind::Uuids(ids) => out.push_bind_param_value_only::<Array<SqlUuid>, _>(ids),
                PgBind::Texts(texts) => out.push_bind_param_value_only::<Array<Text>, _>(texts),
            },
        }
    }
}

impl Binds for Pg {
    const LAST_CLASS: &'static str = "errors->-1->>'class'";

    fn id(id: &Uuid) -> Bind<PgBind> {
        PgBind::Uuid(*id).into()
    }

    /// As a text, which statements cast.
    fn optional_id_bind(id: Option<&Uuid>) -> Bind<PgBind> {
        Bind::OptionalText(id.map(Uuid::to_string))
    }

    fn messages(messages: &[MessageId]) -> Bind<PgBind> {
        PgBind::Uuids(messages.iter().map(|id| *id.as_uuid()).collect()).into()
    }

    fn rows(ids: &[i64]) -> Bind<PgBind> {
        PgBind::Numbers(ids.to_vec()).into()
    }

    fn row_batch(batch: &RowBatch, _step: &Step) -> Vec<Bind<PgBind>> {
        let ids = PgBind::Numbers(batch.rows.iter().map(|row| row.id).collect());
        let messages = PgBind::Uuids(batch.rows.iter().map(|row| *row.message_id.as_uuid()).collect());
        [ids.into(), messages.into()].into_iter().chain(Self::columns(&batch.columns)).collect()
    }

    fn columns(columns: &[Column]) -> Vec<Bind<PgBind>> {
        let own = |column: &Column| match column {
            Column::Ints(column) => PgBind::Ints(column.clone()),
            Column::Numbers(column) => PgBind::Numbers(column.clone()),
            Column::Texts(column) => PgBind::Texts(column.clone()),
        };
        columns.iter().map(|column| own(column).into()).collect()
    }

    fn requeues(requeues: &[Requeue], _step: &Step) -> Vec<Bind<PgBind>> {
        let ids = requeues.iter().map(|requeue| *requeue.message_id.as_uuid()).collect();
        vec![PgBind::Uuids(ids).into(), PgBind::Ints(requeues.iter().map(Requeue::lane_column).collect()).into()]
    }

    fn duration(time: Duration) -> i64 {
        millis(time)
    }

    fn instant_bind(at: SystemTime) -> Bind<PgBind> {
        PgBind::Instant(timestamp(at)).into()
    }

    fn raw_instant_bind(raw: i64) -> Bind<PgBind> {
        PgBind::Instant(PgTimestamp(raw)).into()
    }

    const POSITION: &'static str = "strpos";
}

/// The topics of a poll, where each begins, and how many ms ahead all of them end.
pub(super) fn poll_binds(spec: &PollSpec) -> [Bind<PgBind>; 4] {
    let topics = spec.topics.iter().map(|at| at.topic.as_ref().to_owned()).collect();
    let (first, past) = spec.topics.iter().map(|at| instant_or_past(at.from)).unzip();
    let ahead = Bind::Number(millis(spec.bounded_ahead()));
    [PgBind::Texts(topics).into(), PgBind::OptionalInstants(first).into(), PgBind::OptionalNumbers(past).into(), ahead]
}

fn instant_or_past(from: PollFrom) -> (Option<PgTimestamp>, Option<i64>) {
    let (first, past) = from.bounds();
    (first.map(PgTimestamp), past.map(millis))
}
