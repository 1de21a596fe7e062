use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::group::{Column, Group};
use crate::message::MessageId;
use crate::store::Return;
use crate::store::statement::{BindOf, Dialect};
use crate::store::text::Step;

/// How a database binds what others bind in another way.
pub trait Binds: Dialect {
    /// A message, or a node.
    fn id(id: &Uuid) -> BindOf<Self>;

    /// Messages, in this order.
    fn messages(messages: &[MessageId]) -> BindOf<Self>;

    /// Rows by their ids, in this order.
    fn rows(ids: &[i64]) -> BindOf<Self>;

    /// A group, as far as a statement reads it.
    fn group(group: &Group, step: &Step) -> Vec<BindOf<Self>>;

    /// Rows that are none of a table of ours.
    fn columns(columns: &[Column]) -> Vec<BindOf<Self>>;

    /// What comes back, and to which lanes.
    fn back(back: &[Return], step: &Step) -> Vec<BindOf<Self>>;

    /// An id behind which rows are looked for.
    fn after(id: i64) -> i64 {
        id
    }

    /// A time, as its statements count it.
    fn span(time: Duration) -> i64;

    /// An instant, which the text may count from 1970.
    fn moment(at: SystemTime) -> BindOf<Self>;

    /// An instant where the search for dead letters has it: around its placeholder.
    fn instant_at(placeholder: String) -> String {
        placeholder
    }

    /// A message id where the search for dead letters has it.
    fn id_at(placeholder: String) -> String {
        placeholder
    }

    /// The column `key`.
    const KEY: &'static str = "key";
}
