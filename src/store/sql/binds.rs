use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::dialect::{Bind, BindOf, Dialect};
use super::row_batch::{Column, RowBatch};
use super::text::Step;
use crate::message::MessageId;
use crate::store::Requeue;

/// How a database binds values that each database binds differently.
pub trait Binds: Dialect {
    /// A message, or a node.
    fn id(id: &Uuid) -> BindOf<Self>;

    /// The same, or NULL.
    fn optional_id_bind(id: Option<&Uuid>) -> BindOf<Self>;

    /// Messages, in this order.
    fn messages(messages: &[MessageId]) -> BindOf<Self>;

    /// Rows by their ids, in this order.
    fn rows(ids: &[i64]) -> BindOf<Self>;

    /// A batch, as far as a statement reads it.
    fn row_batch(batch: &RowBatch, step: &Step) -> Vec<BindOf<Self>>;

    /// Columns without a table.
    fn columns(columns: &[Column]) -> Vec<BindOf<Self>>;

    /// Requeued messages and their lanes.
    fn requeues(requeues: &[Requeue], step: &Step) -> Vec<BindOf<Self>>;

    /// The id after which rows are read.
    fn after(id: i64) -> i64 {
        id
    }

    /// A duration, in the unit of the database's statements.
    fn duration(time: Duration) -> i64;

    /// An instant; some texts take it as a duration since 1970.
    fn instant_bind(at: SystemTime) -> BindOf<Self>;

    /// The placeholder of an instant in a search for dead letters, with the conversion that the database needs.
    fn instant_placeholder(placeholder: String) -> String {
        placeholder
    }

    /// An instant as a row had it.
    fn raw_instant_bind(raw: i64) -> BindOf<Self> {
        Bind::Number(raw)
    }

    /// The placeholder of such an instant.
    fn raw_instant_placeholder(placeholder: String) -> String {
        placeholder
    }

    /// The same for a message id.
    fn id_placeholder(placeholder: String) -> String {
        placeholder
    }

    /// The column `key`.
    const KEY: &'static str = "key";

    /// The class of the last failure in the column `errors`; NULL if there is none.
    const LAST_CLASS: &'static str;

    /// The function that finds a text in another.
    const POSITION: &'static str = "instr";
}
