use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::*;
use crate::message::MessageId;

const STALENESS: Duration = Duration::from_secs(4);

/// A clock that stays where it was set.
#[derive(Debug, Clone, Default)]
struct Still(Arc<Mutex<Duration>>);

impl Still {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for Still {
    fn now(&self) -> BootInstant {
        BootInstant::from_boot(*self.0.lock().unwrap())
    }
}

fn handed_over(staleness: Duration) -> HandedOver {
    HandedOver {
        row: RowRef { id: None, message_id: MessageId::new() },
        topic: "orders".into(),
        staleness,
        bytes: 1,
        lane: None,
        due_at: None,
        inline: None,
    }
}

fn take(queue: &Queue) -> Vec<RowRef> {
    queue.try_take(usize::MAX, usize::MAX).iter().map(|row| row.handed.row).collect()
}

/// What was counted as lost, by reason.
fn counted(recorder: &Snapshotter) -> Vec<(String, DebugValue)> {
    let all = recorder.snapshot().into_vec().into_iter();
    let lost = all.filter(|(key, ..)| key.key().name() == crate::metrics::LEFT_TO_SWEEPER);
    lost.map(|(key, _, _, value)| (key.key().labels().map(|label| label.value()).collect(), value)).collect()
}

/// A sweeper might have the row by the time it is confirmed and sent.
#[test]
fn a_row_that_waited_for_half_its_staleness_is_left_to_the_sweeper_as_stale() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || {
        let clock = Still::default();
        let queue = Queue::new(Gauge::noop(), 10, Arc::new(clock.clone()));
        let (hasty, patient) = (handed_over(STALENESS), handed_over(STALENESS * 2));
        let (hasty_row, patient_row) = (hasty.row, patient.row);
        queue.push(vec![hasty, patient]);
        clock.advance(STALENESS / 2);
        assert_eq!(take(&queue), [patient_row], "each row is kept for the staleness of its own topic");
        assert_eq!(queue.deferred.of(|topic| topic == "orders"), [hasty_row], "a flush waits for it");
        assert_eq!(queue.len(), 0);
    });
    assert_eq!(counted(&snapshotter), [("stale".to_owned(), DebugValue::Counter(1))]);
}

#[test]
fn a_row_that_waited_for_less_is_taken() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || {
        let clock = Still::default();
        let queue = Queue::new(Gauge::noop(), 10, Arc::new(clock.clone()));
        let handed = handed_over(STALENESS);
        let row = handed.row;
        queue.push(vec![handed]);
        clock.advance(STALENESS / 2 - Duration::from_nanos(1));
        assert_eq!(take(&queue), [row]);
        assert_eq!(queue.deferred.of(|_| true), []);
    });
    assert!(counted(&snapshotter).is_empty(), "nothing is lost");
}
