use std::sync::Arc;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as Built};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Text};

use super::MysqlStore;
use super::bind::Bind;
use super::group::SILENCE_SECS;
use super::texts::{COMMIT, begin};
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::{AdminStore, Cancellation, StoreError};

#[async_trait]
impl<P: Sessions<Mysql>> AdminStore for MysqlStore<P> {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let hex: Arc<str> = message.as_uuid().simple().to_string().into();
        let texts = &self.admin_texts;
        self.connections
            .within(async {
                let mut lease = self.connections.lease().await?;
                lease.begin(begin(SILENCE_SECS)).await?;
                let free = Statement::new(&texts.lock_delayed, [Bind::Text(Arc::clone(&hex))]);
                let free: Vec<DelayedRow> = lease.load(free).await?;
                let cancellation = if let Some(row) = free.into_iter().next() {
                    lease.execute(Statement::new(&texts.delete_one, [Bind::BigInt(row.id)])).await?;
                    Cancellation::Cancelled { topic: row.topic }
                } else {
                    let there = Statement::new(&texts.look_at_delayed, [Bind::Text(hex)]);
                    let there: Vec<DelayedRow> = lease.load(there).await?;
                    if there.is_empty() { Cancellation::NotThere } else { Cancellation::Taken }
                };
                lease.commit_by(COMMIT.into()).await?;
                lease.give_back();
                Ok(cancellation)
            })
            .await
    }
}

/// A delayed message.
struct DelayedRow {
    id: i64,
    topic: Arc<str>,
}

impl QueryableByName<Mysql> for DelayedRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Built<Self> {
        let topic: String = row.get_value::<Text, _, _>(1)?;
        Ok(Self { id: row.get_value::<BigInt, _, _>(0)?, topic: topic.into() })
    }
}
