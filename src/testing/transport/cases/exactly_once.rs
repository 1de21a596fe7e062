use std::sync::{Arc, Mutex, PoisonError};

use super::super::outcomes::envelope;
use super::super::{OutcomeRecorder, TransportUnderTest};
use super::fences::{lane, payloads};
use super::missing_capability;
use crate::message::MessageId;
use crate::store::RowKey;
use crate::topic::Topic;
use crate::transport::{FencedLane, FencedMessage, KeySequence, OutboxRow, OutboxRowId, RowLookup, Transport};

/// What the lookups were asked.
type Asked = Arc<Mutex<Vec<OutboxRowId>>>;

/// A table in which all rows still are, or none.
fn table(asked: &Asked, has_all: bool) -> RowLookup {
    let asked = Arc::clone(asked);
    RowLookup::new(move |rows| {
        asked.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&rows);
        Box::pin(async move { Ok(if has_all { rows } else { Vec::new() }) })
    })
}

async fn taken(transport: &dyn Transport, topic: &str, rows: RowLookup) -> Arc<dyn FencedLane> {
    let fenced = transport.fence_exactly_once(lane(topic), rows).await;
    fenced.unwrap_or_else(|error| panic!("the lane could not be fenced: {error}"))
}

/// A row that a lane has delivered is not sent again by its later owners, as long as it is in the table. One that has left it is
/// forgotten.
pub async fn exactly_once_lane_sends_no_row_twice(broker: &dyn TransportUnderTest) {
    let [first, second] = [broker.transport(), broker.transport()];
    if !first.supports_exactly_once() {
        missing_capability("exactly_once_lane_sends_no_row_twice", "exactly-once lanes");
    }
    let (topic, outcomes, asked) = (broker.new_topic().await, OutcomeRecorder::new(), Asked::default());
    let prepared = first.prepare(&[Topic::new(&*topic).ordered_by_key().lanes(4).fenced().exactly_once()]).await;
    prepared.unwrap_or_else(|error| panic!("the topic could not be prepared: {error}"));
    let keys: Vec<RowKey> = (0..5).map(|id| RowKey { id, message_id: MessageId::new() }).collect();
    let rows = || keys.iter().copied().map(OutboxRow::new).collect::<Vec<_>>();
    let sequence = KeySequence::new();
    let send = |lane: &Arc<dyn FencedLane>, number: i64, row: &OutboxRow, payload: &str| {
        let (envelope, row) = (envelope(&topic, Some("key"), payload), Some(row.clone()));
        lane.send_all(vec![FencedMessage {
            envelope,
            sender: outcomes.sender(number),
            sequence: sequence.clone(),
            row,
        }]);
    };

    let (owner, known) = (taken(&*first, &topic, table(&asked, true)).await, rows());
    for (number, row) in (0..3).zip(&known) {
        send(&owner, number, row, &number.to_string());
    }
    outcomes.wait_for(3, broker.max_wait()).await;
    known[0].settle();
    send(&owner, 3, &known[3], "3");
    outcomes.wait_for(4, broker.max_wait()).await;

    let (owner, known) = (taken(&*second, &topic, table(&asked, true)).await, rows());
    let mut seen = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    seen.sort_unstable();
    let unsettled: Vec<OutboxRowId> = known[1..4].iter().map(OutboxRow::id).collect();
    assert_eq!(seen, unsettled, "the rows that were delivered and not settled are looked up");
    for (number, row) in (11..15).zip(&known[1..]) {
        send(&owner, number, row, &(number - 10).to_string());
    }
    outcomes.wait_for(8, broker.max_wait()).await;
    assert_eq!(payloads(broker, &topic).await, ["0", "1", "2", "3", "4"]);

    let owner = taken(&*first, &topic, table(&asked, false)).await;
    send(&owner, 24, &rows()[4], "again");
    let seen = outcomes.wait_for(9, broker.max_wait()).await;
    assert!(seen.iter().all(|(number, _)| outcomes.of(*number).is_some_and(|seen| seen.class().is_none())), "{seen:?}");
    assert_eq!(payloads(broker, &topic).await, ["0", "1", "2", "3", "4", "again"]);
}
