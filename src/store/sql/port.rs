use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::SqlStore;
use super::flows::Flows;
use super::group::{Group, ascending};
use super::rows::Committed;
use super::statements::Texts;
use crate::message::MessageId;
use crate::naming::TableNames;
use crate::retry::bounded;
use crate::store::session::Sessions;
use crate::store::statement::{Bind, BindOf};
use crate::store::stored::kept_text;
use crate::store::{
    AdminStore, Claim, ClaimSpec, Confirmed, Dead, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking, Look,
    LookSpec, NoticeStore, RowKey, RowRef, Store, StoreError, StoreWarning, TopicBacklog,
};

#[async_trait]
impl<DB: Flows, P: Sessions<DB>> Store for SqlStore<DB, P> {
    fn use_tables(&mut self, names: &TableNames) {
        self.texts = Arc::new(Texts::new(DB::WORDS, names));
        self.names = names.clone();
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        DB::check(self).await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        let wanted = Wanted::of::<DB>(refs);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<Committed> = self.read(&self.texts.live.confirm, [wanted.bind::<DB>()]).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.row.key));
        Ok(ours.map(|found| Confirmed { row: found.row.decode(&found.topic), lease_left: found.lease_left }).collect())
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        let wanted = Wanted::of::<DB>(refs);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<RowKey> = self.read(&self.texts.live.remaining, [wanted.bind::<DB>()]).await?;
        Ok(found.into_iter().filter(|key| wanted.contains(key)).collect())
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        DB::claim(self, spec).await
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        let text = match locking {
            Locking::Skip => &self.texts.live.settle,
            Locking::Wait => &self.texts.live.settle_waiting,
        };
        let rows = ascending(rows, |row| *row);
        self.write(text, Group::keys(rows.into_iter().copied()), []).await
    }

    async fn settle_dead(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        // Dead letters are found, and locked, by their message ids.
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.message_id);
        let text = &self.texts.live.settle_dead;
        self.execute(text, DB::group(&Group::keys(rows), text.first())).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        let held = ascending(held, |row| row.key);
        let group = Group::held(held.into_iter().copied());
        self.write(&self.texts.live.extend, group, [Bind::Number(DB::span(lease))]).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        let failed = ascending(failed, |row| row.held.key);
        let group = Group::held(failed.iter().map(|row| row.held))
            .numbers(failed.iter().map(|row| DB::span(bounded(row.wait))))
            .ints(failed.iter().map(|row| i32::from(row.spends_attempt)))
            .texts(failed.iter().map(|row| row.class.to_owned()))
            .texts(failed.iter().map(|row| kept_text(&row.error)));
        self.write(&self.texts.live.fail, group, []).await
    }

    async fn dead(&self, dead: &[Dead]) -> Result<Vec<RowKey>, StoreError> {
        let dead = ascending(dead, |row| row.held.key);
        let group = Group::held(dead.iter().map(|row| row.held)).texts(dead.iter().map(|row| kept_text(&row.reason)));
        self.write(&self.texts.live.dead, group, []).await
    }

    async fn look(&self, spec: &LookSpec) -> Result<Look, StoreError> {
        if spec.topics.is_empty() {
            return Ok(Look::default());
        }
        let has_pauses = self.pause_table.is_there(self.check_tables(&["paused_topics"])).await?;
        let looked = DB::look(self, spec, has_pauses).await;
        self.pause_table.note(&looked);
        looked
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        DB::backlog(self, count_max).await
    }

    fn lanes(&self) -> Option<&dyn LaneStore> {
        Some(self)
    }

    fn halves(&self) -> Option<&dyn HalfStore> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn HistoryStore> {
        Some(self)
    }

    fn notices(&self) -> Option<&dyn NoticeStore> {
        DB::notices(self)
    }

    fn admin(&self) -> Option<&dyn AdminStore> {
        Some(self)
    }
}

/// Rows that were handed over. Those that know their id must be that row: an id alone could be another row's, and so a message that was
/// sent again.
struct Wanted {
    keys: HashSet<RowKey>,
    /// What is looked for by its message id, and whether it is known by its id, too.
    messages: Vec<MessageId>,
    known: HashSet<MessageId>,
}

impl Wanted {
    fn of<DB: Flows>(refs: &[RowRef]) -> Self {
        let keys: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
        if DB::FINDS_BY_ID {
            return Self { keys, messages: Vec::new(), known: HashSet::new() };
        }
        let known = keys.iter().map(|key| key.message_id).collect();
        Self { messages: refs.iter().map(|row| row.message_id).collect(), known, keys }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.messages.is_empty()
    }

    fn bind<DB: Flows>(&self) -> BindOf<DB> {
        match DB::FINDS_BY_ID {
            true => DB::rows(&self.keys.iter().map(|key| key.id).collect::<Vec<_>>()),
            false => DB::messages(&self.messages),
        }
    }

    fn contains(&self, key: &RowKey) -> bool {
        self.keys.contains(key) || (!self.messages.is_empty() && !self.known.contains(&key.message_id))
    }
}
