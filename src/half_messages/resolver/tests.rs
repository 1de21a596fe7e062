use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::Instant;

use super::*;
use crate::naming::TableNames;
use crate::store::{
    Claim, ClaimSpec, Confirmed, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking, NewDeadLetter, PollResult,
    PollSpec, RowKey, RowRef, StoreWarning, TopicBacklog,
};
use crate::transport::{FailureClass, InFlightCounter};

/// A store in which every mark is committed, unless it cannot be reached.
#[derive(Debug, Default)]
struct Marks {
    is_down: bool,
    /// Whether it knows no mark, and cannot decide.
    is_undecided: bool,
    /// The number of marks in each statement.
    groups: Mutex<Vec<usize>>,
    /// Old marks left to prune, and when each pruning happened.
    old: Mutex<usize>,
    pruned: Mutex<Vec<(Instant, Duration, usize)>>,
}

impl Marks {
    fn record(&self, is_down: bool, group: usize) -> Result<(), StoreError> {
        self.groups.lock().unwrap().push(group);
        if is_down { Err(StoreError::TimedOut { after: Duration::ZERO }) } else { Ok(()) }
    }
}

#[async_trait]
impl HalfStore for Marks {
    async fn check_marks(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        self.record(self.is_down, messages.len())?;
        Ok(if self.is_undecided { Vec::new() } else { messages.to_vec() })
    }

    async fn decide(&self, _: MessageId, _: &Arc<str>) -> Result<Decision, StoreError> {
        Err(StoreError::TimedOut { after: Duration::ZERO })
    }

    async fn remove_marks(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        self.record(self.is_down, messages.len())?;
        Ok(messages.len())
    }

    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        self.pruned.lock().unwrap().push((Instant::now(), age, rows_max));
        let mut old = self.old.lock().unwrap();
        let rows = rows_max.min(*old);
        *old -= rows;
        Ok(rows)
    }
}

#[async_trait]
impl Store for Marks {
    fn name(&self) -> &'static str {
        "test"
    }

    fn use_tables(&mut self, _: &TableNames) {}

    fn halves(&self) -> Option<&dyn HalfStore> {
        Some(self)
    }

    fn lanes(&self) -> &dyn LaneStore {
        unreachable!("a relay does this")
    }

    fn history(&self) -> &dyn HistoryStore {
        unreachable!("a relay does this")
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn confirm(&self, _: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn remaining(&self, _: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn claim(&self, _: &ClaimSpec) -> Result<Claim, StoreError> {
        unreachable!("a relay does this")
    }

    async fn settle(&self, _: &[RowKey], _: Locking) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn settle_dead_letters(&self, _: &[RowKey]) -> Result<usize, StoreError> {
        unreachable!("a relay does this")
    }

    async fn extend(&self, _: &[Held], _: Duration) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn fail(&self, _: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn dead_letter(&self, _: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn poll(&self, _: &PollSpec) -> Result<PollResult, StoreError> {
        unreachable!("a relay does this")
    }

    async fn backlog(&self, _: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        unreachable!("a relay does this")
    }
}

/// A broker that takes a second for each report, and fails while it is down.
#[derive(Default)]
struct Slow {
    is_down: bool,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

#[async_trait]
impl Broker for Slow {
    async fn end(&self, _: &HalfSent, _: bool) -> Result<(), TransportError> {
        self.most_at_once.fetch_max(self.at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        if self.is_down { Err(TransportError::new(FailureClass::Connection, "gone")) } else { Ok(()) }
    }
}

fn end(jobs: &mpsc::Sender<EndedHalf>, count: usize) {
    let open = InFlightCounter::new();
    for _ in 0..count {
        EndedHalf::new(MessageId::new(), "orders".into(), HalfSent::nowhere(), open.register(None)).hand_over(jobs);
    }
}

/// Runs a worker until nothing is left to report.
async fn work(store: Arc<Marks>, broker: Option<&Arc<Slow>>, jobs: mpsc::Receiver<EndedHalf>) {
    let broker: Weak<dyn Broker> = match broker {
        Some(broker) => Arc::downgrade(&(Arc::clone(broker) as Arc<dyn Broker>)),
        None => Weak::<Slow>::new(),
    };
    Worker { store, broker, failures: Failures::default() }.run(jobs).await;
}

/// The count of each outcome since the last call.
fn outcomes(counted: &Snapshotter) -> HashMap<String, u64> {
    let mut outcomes = HashMap::new();
    for (key, _, _, value) in counted.snapshot().into_vec() {
        let labels = key.key().labels().map(|label| (label.key(), label.value())).collect::<HashMap<_, _>>();
        let DebugValue::Counter(count) = value else { continue };
        assert_eq!((key.key().name(), labels["topic"]), (metrics::HALF_MESSAGES, "orders"));
        outcomes.insert(labels["outcome"].to_owned(), count);
    }
    outcomes.retain(|_, count| *count > 0);
    outcomes
}

fn all(outcome: &str, count: usize) -> HashMap<String, u64> {
    HashMap::from([(outcome.to_owned(), count as u64)])
}

#[test]
fn half_messages_above_the_queue_limit_are_unreported() {
    let recorder = DebuggingRecorder::new();
    let _recording = ::metrics::set_default_local_recorder(&recorder);
    let counted = recorder.snapshotter();
    let (ended, waiting) = channel();
    end(&ended, HALF_ENDED_MAX);
    assert_eq!(outcomes(&counted), HashMap::new());
    end(&ended, 3);
    assert_eq!(outcomes(&counted), all("unreported", 3));
    assert_eq!(waiting.len(), HALF_ENDED_MAX);
    drop(waiting);
    assert_eq!(outcomes(&counted), all("unreported", HALF_ENDED_MAX), "nor is one that waits at the end");
    end(&ended, 1);
    assert_eq!(outcomes(&counted), all("unreported", 1), "a later report is not counted either");
}

#[tokio::test(start_paused = true)]
async fn unreported_half_messages_are_counted_for_every_reason() {
    let recorder = DebuggingRecorder::new();
    let _recording = ::metrics::set_default_local_recorder(&recorder);
    let counted = recorder.snapshotter();
    let (reached, gone) = (Arc::<Slow>::default(), Arc::new(Slow { is_down: true, ..Slow::default() }));
    let down = || Marks { is_down: true, ..Marks::default() };
    let undecided = || Marks { is_undecided: true, ..Marks::default() };
    for (case, store, broker, outcome) in [
        ("all is well", Marks::default(), Some(&reached), "committed"),
        ("the broker is gone", Marks::default(), Some(&gone), "unreported"),
        ("the marks cannot be read", down(), Some(&reached), "unreported"),
        ("nothing can be decided", undecided(), Some(&reached), "unreported"),
        ("the handle was dropped", Marks::default(), None, "unreported"),
    ] {
        let (ended, waiting) = channel();
        end(&ended, HALF_BATCH_MAX + 7);
        drop(ended);
        work(Arc::new(store), broker, waiting).await;
        assert_eq!(outcomes(&counted), all(outcome, HALF_BATCH_MAX + 7), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn decisions_are_read_and_reported_in_bounded_batches() {
    let (store, broker) = (Arc::<Marks>::default(), Arc::<Slow>::default());
    let (ended, waiting) = channel();
    end(&ended, 2 * HALF_BATCH_MAX + 1);
    drop(ended);
    work(Arc::clone(&store), Some(&broker), waiting).await;
    let groups = [HALF_BATCH_MAX, HALF_BATCH_MAX, 1].map(|group| [group; 2]);
    assert_eq!(*store.groups.lock().unwrap(), groups.as_flattened(), "read, and then forgotten");
    assert_eq!(broker.most_at_once.load(Ordering::Relaxed), HALF_ENDS_AT_ONCE_MAX);
}

#[tokio::test(start_paused = true)]
async fn old_marks_are_pruned_in_bounded_statements_and_periodically() {
    let store = Arc::new(Marks { old: Mutex::new(2 * HALF_PRUNE_ROWS_MAX + 1), ..Marks::default() });
    let (ended, _waiting) = channel();
    let pruner = prune(Arc::clone(&store) as Arc<dyn Store>, ended.downgrade());
    let began = Instant::now();
    let ends = async move {
        sleep(HALF_PRUNE_INTERVAL + Duration::from_secs(1)).await;
        drop(ended);
    };
    tokio::join!(pruner, ends);
    let pruned = store.pruned.lock().unwrap();
    assert!(pruned.iter().all(|(_, age, rows)| (*age, *rows) == (HALF_MARK_AGE_MAX, HALF_PRUNE_ROWS_MAX)));
    let after: Vec<u64> = pruned.iter().map(|(at, _, _)| at.duration_since(began).as_secs()).collect();
    assert_eq!(after, [0, 0, 0, HALF_PRUNE_INTERVAL.as_secs()], "nothing is pruned once the handle is dropped");
}
