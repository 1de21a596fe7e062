use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use diesel::mysql::Mysql;

use super::bind::look;
use super::rows::{BacklogRow, FenceRow, LookRow, OneRow};
use super::transaction::{COMMIT, begin_write, write_locked};
use super::{MysqlStore, lock_wait};
use crate::lane::NodeId;
use crate::limits::MYSQL_MARK_WAIT;
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::sql::binds::Binds as _;
use crate::store::sql::flows::{Flows, Voiding, Written, with};
use crate::store::sql::group::{Column, Group, each_once};
use crate::store::sql::rows::Read;
use crate::store::sql::scans::{SCAN_COUNTS, scan_groups};
use crate::store::sql::statements::Texts;
use crate::store::statement::{Bind, BindOf, Statement};
use crate::store::text::Text;
use crate::store::{
    Claim, ClaimSpec, Kept, Look, LookAt, LookFrom, LookSpec, Marking, Pruned, Return, RowKey, StoreError,
    StoreWarning, TopicBacklog,
};

type Binds = Vec<BindOf<Mysql>>;

// The first text of a statement that writes finds and locks what the others write.
impl Flows for Mysql {
    const FINDS_BY_ID: bool = false;

    const COMMIT: &'static str = COMMIT;

    fn begin<P: Sessions<Self>>(_store: &MysqlStore<P>) -> Arc<str> {
        begin_write()
    }

    fn voiding<P: Sessions<Self>>(store: &MysqlStore<P>) -> Voiding {
        let usual = lock_wait(store.calls.connections.deadline());
        let wait = MYSQL_MARK_WAIT.as_secs();
        let begin = format!("SET SESSION innodb_lock_wait_timeout = {wait}; {}", begin_write()).into();
        let commit = format!("{COMMIT}, innodb_lock_wait_timeout = {usual}").into();
        Voiding { reads_first: false, around: None, begin, commit }
    }

    async fn check<P: Sessions<Self>>(store: &MysqlStore<P>) -> Result<Vec<StoreWarning>, StoreError> {
        store.calls.connections.within(store.check_database()).await
    }

    async fn check_tables<P: Sessions<Self>>(store: &MysqlStore<P>, tables: &[&str]) -> Result<(), StoreError> {
        store.check_named(tables).await
    }

    async fn claim<P: Sessions<Self>>(store: &MysqlStore<P>, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        store.calls.connections.within(store.open_claim(spec)).await
    }

    async fn look<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        spec: &LookSpec,
        has_pauses: bool,
    ) -> Result<Look, StoreError> {
        let text = store.texts.due.look_text(has_pauses);
        let mut topics = Vec::with_capacity(spec.topics.len());
        for (_, group, size) in scan_groups(&spec.topics) {
            let nothing = LookAt { topic: "".into(), from: LookFrom::Beginning };
            let filled_up = group.iter().chain(iter::repeat(&nothing)).take(SCAN_COUNTS[size]);
            let binds: Binds = filled_up.flat_map(|at| look(at, spec, has_pauses)).collect();
            let found: Vec<LookRow> = store.calls.poll(Statement::step(text, size, binds)).await?;
            let found = found.into_iter().filter_map(|row| Some((group.get(row.place)?, row)));
            topics.extend(found.map(|(at, row)| row.of(at, spec.watermark_slack_duration)));
        }
        Ok(Look::of(topics))
    }

    /// One statement a topic, each of which tells the next topic: on MariaDB a derived table cannot see the row beside it,
    /// as counting them all in one statement would need, and grouping by topic reads the whole index.
    async fn backlog<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        count_max: usize,
    ) -> Result<Vec<TopicBacklog>, StoreError> {
        let texts = Arc::clone(&store.texts);
        let counted = store.calls.run(move |lease| {
            Box::pin(async move {
                let mut topics = Vec::new();
                // Before every topic: none is empty.
                let mut next = Some(Arc::from(""));
                while let Some(topic) = next.take() {
                    let binds = [Bind::text(&topic), Bind::limit(count_max)];
                    let read: Vec<BacklogRow> = lease.load(Statement::new(&texts.due.backlog, binds)).await?;
                    for row in read {
                        next = row.next_topic();
                        topics.extend(row.of(&topic));
                    }
                }
                Ok(topics)
            })
        });
        counted.await
    }

    /// Looked for before, without a lock: InnoDB locks a row before it knows whether the rest of the condition holds, and keeps it
    /// locked until COMMIT. One that is under way would be passed over by whoever is to note its failure, and nobody notes that
    /// again.
    async fn write_one<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        text: &Text,
        binds: Binds,
    ) -> Result<Written, StoreError> {
        let text = text.clone();
        let written = store.transact(move |lease| {
            Box::pin(async move {
                let [find, lock, look] = [0, 1, 3].map(|at| Statement::step(&text, at, binds.clone()));
                let mut locked: Vec<OneRow> = lease.load(find).await?;
                if !locked.is_empty() {
                    locked = lease.load(lock).await?;
                }
                if let Some(row) = locked.into_iter().next() {
                    lease.execute(Statement::step(&text, 2, [Bind::Number(row.id)])).await?;
                    return Ok(Written::Topic(row.topic));
                }
                let there: Vec<OneRow> = lease.load(look).await?;
                Ok(if there.is_empty() { Written::NotThere } else { Written::Taken })
            })
        });
        written.await
    }

    async fn replace<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        letter: MessageId,
        by: Binds,
    ) -> Result<bool, StoreError> {
        let text = store.texts.letters.replace.clone();
        let binds: Binds = [Self::messages(&[letter])].into_iter().chain(by).collect();
        let lock = Statement::new(&text, binds.clone());
        let writes = move |_: &[RowKey]| Statement::steps_from(&text, 1, |_| binds.clone());
        Ok(!store.lock_and_write(lock, writes).await?.is_empty())
    }

    async fn write<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        text: &Text,
        mut group: Group,
        others: Binds,
    ) -> Result<Vec<RowKey>, StoreError> {
        let text = text.clone();
        let lock = Statement::new(&text, Self::group(&group, text.first()));
        let writes = move |locked: &[RowKey]| {
            group.retain(locked);
            Statement::steps_from(&text, 1, |step| with(Self::group(&group, step), &others))
        };
        store.lock_and_write(lock, writes).await
    }

    async fn write_owned<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        text: &Text,
        (topic, node): (&Arc<str>, NodeId),
        mut group: Group,
    ) -> Result<Vec<RowKey>, StoreError> {
        let (text, topic, node) = (text.clone(), Bind::text(topic), Self::id(node.as_uuid()));
        let written = store.transact(move |lease| {
            Box::pin(async move {
                let owned: Vec<FenceRow> = lease.load(Statement::new(&text, [topic.clone(), node])).await?;
                let owned = Self::columns(&[
                    Column::Numbers(owned.iter().map(|lane| lane.lane).collect()),
                    Column::Numbers(owned.iter().map(|lane| lane.fence).collect()),
                ]);
                let named = Self::group(&group, &text.steps()[1]).into_iter().chain(owned).chain([topic]);
                let lock = Statement::step(&text, 1, named.collect::<Binds>());
                let writes = |locked: &[RowKey]| {
                    group.retain(locked);
                    Statement::steps_from(&text, 2, |step| Self::group(&group, step))
                };
                write_locked(lease, lock, writes).await
            })
        });
        written.await
    }

    async fn keep<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        text: &Text,
        rows: Vec<Kept>,
    ) -> Result<Vec<RowKey>, StoreError> {
        let (texts, text) = (Arc::clone(&store.texts), text.clone());
        let lock = Statement::new(&text, Self::group(&Group::kept(&rows), text.first()));
        let writes = move |locked: &[RowKey]| {
            let locked: HashSet<&RowKey> = locked.iter().collect();
            let kept: Vec<Kept> = rows.iter().filter(|row| locked.contains(&row.key)).copied().collect();
            let gone = Self::group(&Group::kept(&kept), &text.steps()[2]);
            let mut writes = keeping(&texts, (&text, 1), kept);
            writes.push(Statement::step(&text, 2, gone));
            writes
        };
        store.lock_and_write(lock, writes).await
    }

    async fn move_back<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        text: &Text,
        mut back: Vec<Return>,
    ) -> Result<Vec<MessageId>, StoreError> {
        let text = text.clone();
        let lock = Statement::new(&text, Self::back(&back, text.first()));
        let writes = move |locked: &[RowKey]| {
            let locked: HashSet<MessageId> = locked.iter().map(|key| key.message_id).collect();
            back.retain(|back| locked.contains(&back.message_id));
            Statement::steps_from(&text, 1, |step| Self::back(&back, step))
        };
        let moved = store.lock_and_write(lock, writes).await?;
        Ok(moved.into_iter().map(|key| key.message_id).collect())
    }

    async fn remove<P: Sessions<Self>>(store: &MysqlStore<P>, text: &Text, binds: Binds) -> Result<usize, StoreError> {
        let text = text.clone();
        let find = Statement::new(&text, binds);
        let removes = move |found: &[RowKey]| {
            let found = each_once(found.iter().map(|key| key.message_id));
            Statement::steps_from(&text, 1, |_| vec![Self::messages(&found)])
        };
        Ok(store.lock_and_write(find, removes).await?.len())
    }

    async fn prune<P: Sessions<Self>>(store: &MysqlStore<P>, rows_max: usize) -> Result<Pruned, StoreError> {
        let rows = Self::remove(store, &store.texts.retention.prune, vec![Bind::limit(rows_max)]).await?;
        Ok(Pruned { rows, more: rows == rows_max })
    }

    async fn mark_processed<P: Sessions<Self>>(
        store: &MysqlStore<P>,
        messages: &[MessageId],
    ) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        let (text, messages) = (store.texts.sent.mark.clone(), messages.to_vec());
        let marked = store.transact(move |lease| {
            Box::pin(async move {
                let group = |messages: &[MessageId]| [Self::messages(&each_once(messages.iter().copied()))];
                let there: Vec<Read<(MessageId, Marking)>> =
                    lease.load(Statement::new(&text, group(&messages))).await?;
                let mut markings: HashMap<MessageId, Marking> = there.into_iter().map(|row| row.0).collect();
                for message in messages {
                    markings.entry(message).or_insert(Marking::Ahead);
                }
                for (wanted, step) in [(Marking::Marked, 1), (Marking::Ahead, 2)] {
                    let those = markings.iter().filter(|(_, marking)| **marking == wanted);
                    let those: Vec<MessageId> = those.map(|(message, _)| *message).collect();
                    if !those.is_empty() {
                        lease.execute(Statement::step(&text, step, group(&those))).await?;
                    }
                }
                Ok(markings.into_iter().collect())
            })
        });
        marked.await
    }
}

/// The writes that put rows into the history, from where they still are.
pub(super) fn keeping(texts: &Texts, (text, step): (&Text, usize), mut rows: Vec<Kept>) -> Vec<Statement<Mysql>> {
    rows.sort_unstable_by_key(|row| row.key.id);
    let group = Mysql::group(&Group::kept(&rows), &text.steps()[step]);
    let mut writes = vec![Statement::step(text, step, group)];
    let awaiting = rows.iter().filter(|row| row.keep.awaits_processing).map(|row| row.key.message_id);
    let awaiting = each_once(awaiting);
    if !awaiting.is_empty() {
        writes.push(Statement::new(&texts.kept.take_marks, [Mysql::messages(&awaiting)]));
    }
    writes
}
