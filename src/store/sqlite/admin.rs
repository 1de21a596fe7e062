use std::sync::Arc;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as Built};
use diesel::row::NamedRow;
use diesel::sql_types::Text;
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::bind::Bind;
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::{AdminStore, Cancellation, StoreError};

#[async_trait]
impl<P: Sessions<Sqlite>> AdminStore for SqliteStore<P> {
    // A message that is there only in the second statement was committed between the two: it is taken for one in hand, and
    // a second call cancels it.
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let id = || [Bind::message_ids([message].into_iter())];
        let gone: Vec<TopicRow> = self.caller().load(Statement::new(&self.admin_texts.cancel, id())).await?;
        if let Some(row) = gone.into_iter().next() {
            return Ok(Cancellation::Cancelled { topic: row.0 });
        }
        let there: Vec<TopicRow> = self.caller().load(Statement::new(&self.admin_texts.look_at_delayed, id())).await?;
        Ok(if there.is_empty() { Cancellation::NotThere } else { Cancellation::Taken })
    }
}

struct TopicRow(Arc<str>);

impl QueryableByName<Sqlite> for TopicRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Built<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        Ok(Self(topic.into()))
    }
}
