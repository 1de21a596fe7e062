use std::sync::Arc;

use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::Bind;
use super::rows::BacklogRow;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::{StoreError, TopicBacklog};

/// Keeps the counts on their indexes, which need no sort. Left to itself the planner takes a bitmap and sorts, which reads
/// all of a topic whatever the LIMIT: 750 ms of 500,000 rows for a thousand of each of 5 topics, so 11 ms.
fn begin(settings: &str) -> Arc<str> {
    format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {settings}; SET LOCAL enable_sort = off").into()
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    pub(super) async fn count_topics(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        let mut lease = self.connections.lease().await?;
        lease.begin(begin(&self.local_settings())).await?;
        let statement = Statement::new(&self.texts.backlog, [Bind::BigInt(limit(count_max))]);
        let topics: Vec<BacklogRow> = lease.load(statement).await?;
        lease.commit().await?;
        lease.give_back();
        Ok(topics.into_iter().map(|row| row.0).collect())
    }
}
