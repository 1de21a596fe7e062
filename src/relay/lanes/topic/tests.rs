use std::collections::BTreeSet;
use std::time::SystemTime;

use super::*;
use crate::limits::LANE_COMMITS_MAX;
use crate::message::{Envelope, MessageId};
use crate::relay::health::gauges::Gauges;
use crate::store::{OwnedLane, Row};
use crate::topic::Topic;

const NOW: BootInstant = BootInstant::from_boot(Duration::from_secs(9));
const HOUR: Duration = Duration::from_secs(3_600);

pub(in crate::relay::lanes) fn lanes_of(count: u16) -> TopicLanes {
    let topic = TopicState::new(Topic::new("orders").ordered_by_key().lanes(count), Gauges::default());
    let lanes = TopicLanes::new(Arc::new(topic));
    for lane in 0..count {
        let held = OwnedLane { lane, fence: 1 };
        lanes.owned().insert(lane, Lane::new(held, FenceState::Plain, NOW + HOUR, NOW, NOW));
    }
    lanes
}

#[test]
fn lanes_that_do_not_fit_into_one_read_have_their_turn() {
    let lanes = lanes_of(200);
    // Each lane wants to be read every time, as with a backlog.
    let mut turn = 0;
    let read: Vec<_> =
        (0..5).flat_map(|_| lanes.scans(&mut turn, 80, NOW)).map(|(ownership, _)| ownership.lane()).collect();
    assert_eq!(read.len(), 400);
    assert_eq!(read[..200].iter().collect::<BTreeSet<_>>().len(), 200, "every lane comes once before any comes twice");
}

/// The page that shows the row was requested before the row was settled, and its hook reports only now.
#[test]
fn a_row_whose_commit_is_reported_after_its_send_is_read() {
    let lanes = lanes_of(1);
    let ownership = lanes.owned()[&0].ownership;
    let turn = |id| {
        let row = RowKey { id, message_id: MessageId::new() };
        let envelope = Envelope::new(row.message_id, "orders".into(), SystemTime::UNIX_EPOCH);
        let row_itself = Row { key: row, epoch: 0, failures: 0, is_suspect: false, envelope };
        lanes.committed(
            0,
            Some(id),
            NOW,
            Some(Box::new(InlineRow { row: row_itself, inserted_at: NOW, announced_at: None })),
        );
        Turn {
            ownership,
            valid_until: NOW + HOUR,
            key: 7,
            waiting: WaitingRow { row, bytes: 0, since: NOW },
            sequence: None,
        }
    };
    let (sent, next) = (turn(5), turn(6));
    lanes.with_lane(ownership, |lane| lane.sent(7, sent.waiting.row));
    assert!(lanes.take_inline(&sent, NOW).is_none());
    assert!(lanes.take_inline(&next, NOW).is_some() && lanes.take_inline(&next, NOW).is_none(), "once");
    assert!(
        lanes.take_inline(&Turn { ownership: LaneOwnership::begin(ownership.held), ..turn(8) }, NOW).is_none(),
        "the lane was taken again"
    );
    assert!(lanes.take_inline(&turn(9), NOW + LANE_INLINE_AGE_MAX).is_none(), "somebody may have deleted it by hand");
}

fn entry(id: i64) -> LaneEntry {
    let row = RowKey { id, message_id: MessageId::new() };
    LaneEntry { scan: 0, row, key: Some("k".into()), bytes: 1, age: Duration::ZERO, horizon: None }
}

/// Lost while the database still assigned it to this node, the lane is taken again under the same fence.
#[test]
fn a_page_requested_in_an_earlier_ownership_is_ignored() {
    let lanes = lanes_of(1);
    let next_scan = || lanes.scans(&mut 0, 1, NOW)[0];
    let note = |scan, rows: &[LaneEntry]| lanes.note(scan, rows, true, (NOW, NOW), NOW + HOUR, |_| None);
    let rows = [entry(5), entry(6), entry(7)];
    let first = next_scan();
    note(first, &rows[..2]);
    let (ownership, beyond) = (first.0, next_scan());
    assert!(lanes.lose(ownership, NOW));
    lanes.owned().insert(0, Lane::new(ownership.held, FenceState::unfenced(NOW), NOW + HOUR, NOW, NOW));
    note(beyond, &rows[2..]);
    assert!(!lanes.lose(ownership, NOW), "the fence was of the earlier ownership");
    lanes.with_lane(ownership, |lane| lane.fence_state = FenceState::Plain);
    assert!(lanes.take(&mut 0, 1, 1, NOW).is_empty(), "a send mode of the earlier ownership is not used");
    lanes.owned().get_mut(&0).unwrap().fence_state = FenceState::Plain;
    assert!(!lanes.ready(NOW), "5 and 6 go before 7");
    note(next_scan(), &rows);
    assert_eq!(lanes.take(&mut 0, 1, 1, NOW)[0].waiting.row, rows[0].row);
}

/// Arrivals without room are read instead.
#[test]
fn arrivals_are_kept_up_to_a_number() {
    let lanes = lanes_of(1);
    let row = |id| {
        let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        let key = RowKey { id, message_id: envelope.message_id };
        let row = Row { key, epoch: 0, failures: 0, is_suspect: false, envelope };
        Some(Box::new(InlineRow { row, inserted_at: NOW, announced_at: Some(NOW) }))
    };
    let most = LANE_COMMITS_MAX as i64;
    (0..most).for_each(|id| lanes.committed(0, Some(id), NOW, row(id)));
    assert!(lanes.pending_reads.take().is_empty() && !lanes.is_idle());
    lanes.committed(0, Some(most), NOW, row(most));
    assert_eq!(lanes.pending_reads.take().get(&0), Some(&Some(most)));
    assert_eq!(lanes.refresh(NOW), 0);
    lanes.committed(0, Some(most), NOW, row(most));
    assert!(lanes.pending_reads.take().is_empty(), "the arrival was kept, because there is room again");
}
