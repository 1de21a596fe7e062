use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::dialect::{BindOf, Dialect};
use super::group::{Column, RowBatch};
use super::text::Step;
use crate::message::MessageId;
use crate::store::Requeue;

/// How a database binds values that each database binds differently.
pub trait Binds: Dialect {
    /// A message, or a node.
    fn id(id: &Uuid) -> BindOf<Self>;

    /// Messages, in this order.
    fn messages(messages: &[MessageId]) -> BindOf<Self>;

    /// Rows by their ids, in this order.
    fn rows(ids: &[i64]) -> BindOf<Self>;

    /// A group, as far as a statement reads it.
    fn row_batch(batch: &RowBatch, step: &Step) -> Vec<BindOf<Self>>;

    /// Rows of no table: columns alone.
    fn columns(columns: &[Column]) -> Vec<BindOf<Self>>;

    /// What comes back, and to which lanes.
    fn requeues(requeues: &[Requeue], step: &Step) -> Vec<BindOf<Self>>;

    /// An id behind which rows are looked for.
    fn after(id: i64) -> i64 {
        id
    }

    /// A time, as its statements count it.
    fn duration(time: Duration) -> i64;

    /// An instant; some texts take it as a time since 1970.
    fn instant_bind(at: SystemTime) -> BindOf<Self>;

    /// The placeholder of an instant in the search for dead letters, with what the database needs around it.
    fn instant_placeholder(placeholder: String) -> String {
        placeholder
    }

    /// The same for a message id.
    fn id_placeholder(placeholder: String) -> String {
        placeholder
    }

    /// The column `key`.
    const KEY: &'static str = "key";
}
