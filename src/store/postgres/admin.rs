use std::sync::Arc;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as Built};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{Bool, Nullable, Text};

use super::PostgresStore;
use super::bind::Bind;
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::{AdminStore, Cancellation, StoreError};

#[async_trait]
impl<P: Sessions<Pg>> AdminStore for PostgresStore<P> {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let statement = Statement::new(&self.admin_texts.cancel, [Bind::Uuid(*message.as_uuid())]);
        let rows: Vec<CancelRow> = self.connections.load(statement).await?;
        Ok(match rows.into_iter().next() {
            Some(CancelRow { topic: Some(topic), .. }) => Cancellation::Cancelled { topic },
            Some(CancelRow { was_there: true, .. }) => Cancellation::Taken,
            _ => Cancellation::NotThere,
        })
    }
}

/// What a cancel found.
struct CancelRow {
    /// Of the message, where it was removed.
    topic: Option<Arc<str>>,
    was_there: bool,
}

impl QueryableByName<Pg> for CancelRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Built<Self> {
        let topic: Option<String> = row.get_value::<Nullable<Text>, _, _>(0)?;
        Ok(Self { topic: topic.map(Into::into), was_there: row.get_value::<Bool, _, _>(1)? })
    }
}
