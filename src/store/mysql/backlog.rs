use std::sync::Arc;

use diesel::mysql::Mysql;

use super::MysqlStore;
use super::bind::Bind;
use super::rows::BacklogRow;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::{StoreError, TopicBacklog};

impl<P: Sessions<Mysql>> MysqlStore<P> {
    /// One statement a topic, each of which tells the next topic: on MariaDB a derived table cannot see the row beside it,
    /// as counting them all in one statement would need, and grouping by topic reads the whole index.
    pub(super) async fn count_topics(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        let mut lease = self.connections.lease().await?;
        let mut topics = Vec::new();
        // Before every topic: none is empty.
        let mut next = Some(Arc::from(""));
        while let Some(topic) = next.take() {
            let name = || Bind::Text(Arc::clone(&topic));
            let count_max = || Bind::BigInt(limit(count_max));
            let counted = [name(), count_max(), name(), count_max(), name(), count_max()];
            let binds: Vec<Bind> = [count_max(), name(), name()].into_iter().chain(counted).collect();
            let read: Vec<BacklogRow> = lease.load(Statement::new(&self.texts.backlog, binds)).await?;
            for row in read {
                next = row.next_topic();
                topics.extend(row.of(&topic));
            }
        }
        lease.give_back();
        Ok(topics)
    }
}
