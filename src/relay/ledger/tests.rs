use super::*;
use crate::message::MessageId;
use crate::relay::health::gauges::Gauges;
use crate::relay::path::Path;
use crate::relay::topics::{TopicState, Topics};
use crate::topic::Topic;

fn entry(topic: &Arc<TopicState>) -> Entry<()> {
    Entry {
        topic: Arc::clone(topic),
        holder: Holder::Lost,
        progress: Progress::InFlight,
        failures: 0,
        attempt: 1,
        kind: None,
        bytes: 10,
        committed_at: Some(BootInstant::from_boot(std::time::Duration::ZERO)),
        waited: None,
        sent_at: BootInstant::from_boot(std::time::Duration::ZERO),
        overdue_since: None,
        path: Path::Confirmed,
        alone: false,
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_counts_once_and_a_removed_row_has_none() {
    let topics = Topics::new([Topic::new("orders")], &Gauges::default());
    let topic = topics.get("orders").expect("it was given");
    let ledger = Arc::new(Ledger::new(Gauge::noop(), &Limits::default()));
    let mut room = ledger.reserve(10, 1_000).await;
    let [failed, removed] = [1, 2].map(|id| RowKey { id, message_id: MessageId::new() });
    for row in [failed, removed] {
        assert_eq!(ledger.enter(row, entry(topic), &mut room), Ok(()));
        assert_eq!(ledger.enter(row, entry(topic), &mut room), Err(Progress::InFlight));
    }
    assert!(ledger.complete(failed, false).is_some());
    assert!(ledger.complete(failed, true).is_none(), "a second outcome");
    assert_eq!(ledger.enter(failed, entry(topic), &mut room), Err(Progress::Failed));
    ledger.remove_all(&[failed, removed]);
    assert!(ledger.complete(removed, true).is_none());
    assert_eq!((ledger.len(), topic.in_flight()), (0, 0));
}

/// Whatever happened to the task that should have written the failure or reported the outcome.
#[tokio::test(start_paused = true)]
async fn rows_without_an_outcome_are_abandoned_and_their_leases_not_extended() {
    let topics = Topics::new([Topic::new("orders")], &Gauges::default());
    let topic = topics.get("orders").expect("it was given");
    let ledger = Arc::new(Ledger::new(Gauge::noop(), &Limits::default()));
    let mut room = ledger.reserve(10, 1_000).await;
    let at = |seconds| BootInstant::from_boot(std::time::Duration::from_secs(seconds));
    let [failed, forgotten, delivered] = [1, 2, 3].map(|id| RowKey { id, message_id: MessageId::new() });
    for row in [failed, forgotten, delivered] {
        let holder = Holder::Lease(Lease { epoch: 0, began_at: at(0), ends_at: at(30) });
        assert_eq!(ledger.enter(row, Entry { holder, ..entry(topic) }, &mut room), Ok(()));
    }
    assert_eq!(ledger.leases_to_extend(at(25)).len(), 3);
    ledger.complete(failed, false);
    ledger.complete(delivered, true);
    assert_eq!(ledger.leases_to_extend(at(25)).len(), 2, "a failure is written at once");
    let abandoned = |sent_before, now| -> Vec<RowKey> {
        ledger.abandon_overdue(at(sent_before), at(now)).into_iter().map(|(row, _)| row).collect()
    };
    assert_eq!(abandoned(0, 25), []);
    ledger.drop_expired_leases(at(31));
    assert_eq!(abandoned(0, 31), [failed]);
    let late = 60 + OUTCOME_GRACE.as_secs();
    assert_eq!((abandoned(1, 60), abandoned(1, late - 1), abandoned(1, late)), (vec![], vec![], vec![forgotten]));
    assert_eq!(ledger.leases_to_extend(at(late)), []);
    assert_eq!((ledger.len(), topic.in_flight()), (1, 0), "this process never sends a delivered row again");
}

/// The row was abandoned while its failure was being written, and is sent again. The late failure must not remove the
/// new send.
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_written_late_removes_no_later_send() {
    let topics = Topics::new([Topic::new("orders")], &Gauges::default());
    let topic = topics.get("orders").expect("it was given");
    let ledger = Arc::new(Ledger::new(Gauge::noop(), &Limits::default()));
    let mut room = ledger.reserve(10, 1_000).await;
    let at = |seconds| BootInstant::from_boot(std::time::Duration::from_secs(seconds));
    let under = |epoch| Holder::Lease(Lease { epoch, began_at: at(0), ends_at: at(30) });
    let row = RowKey { id: 1, message_id: MessageId::new() };
    assert_eq!(ledger.enter(row, Entry { holder: under(0), ..entry(topic) }, &mut room), Ok(()));
    ledger.complete(row, false);
    ledger.drop_expired_leases(at(31));
    assert_eq!(ledger.abandon_overdue(at(0), at(31)).len(), 1);
    for holder in [under(1), Holder::Lost] {
        assert_eq!(ledger.enter(row, Entry { holder, ..entry(topic) }, &mut room), Ok(()));
        ledger.remove_failed(row, Some(0));
        assert!(ledger.complete(row, true).is_some(), "the new send still waits for its outcome");
        ledger.remove(row);
    }
    assert_eq!(ledger.enter(row, Entry { holder: under(2), ..entry(topic) }, &mut room), Ok(()));
    ledger.complete(row, false);
    ledger.remove_failed(row, Some(2));
    assert_eq!((ledger.len(), topic.in_flight()), (0, 0), "its own failure removes it");
}
