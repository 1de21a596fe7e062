use super::*;
use crate::limits::{
    FULL_SCAN_PAUSE_FACTOR, LANE_LATE_PAUSE, LANE_PAGE_ROWS_MAX, LANE_REREAD_ROWS_MAX, LANE_WAITING_LOW,
    LANE_WAKEUP_SLACK_IDS,
};
use crate::message::MessageId;

const NOW: BootInstant = BootInstant::from_boot(Duration::from_secs(9));
const POLL: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

fn lane() -> Lane {
    Lane::new(OwnedLane { lane: 0, fence: 1 }, FenceState::Plain, NOW + POLL * 3_600, NOW, NOW)
}

/// A row with a key of its own.
fn found(id: i64) -> FoundRow {
    let row = RowKey { id, message_id: MessageId::new() };
    FoundRow { key: id.cast_unsigned(), waiting: WaitingRow { row, bytes: 1, since: NOW }, in_ledger: false }
}

/// Notes a page of `rows` and of as many settled rows as make it `read`, up to `last`.
fn note(lane: &mut Lane, scan: Scan, rows: Vec<FoundRow>, (read, last): (usize, i64), is_full: bool) {
    lane.note(scan, &Page { read, is_full, ..page(rows, last) }, NOW + POLL);
}

/// A page that reaches the end, up to `last`.
fn page(rows: Vec<FoundRow>, last: i64) -> Page {
    let read = rows.len();
    Page { rows, read, youngest: Duration::MAX, horizon: None, last, is_full: false, seen: 0, read_at: (NOW, NOW) }
}

/// What is read next at `now`, after the due read for late rows found nothing.
fn next(lane: &mut Lane, now: BootInstant) -> Option<Scan> {
    let scan = lane.next_scan(now)?;
    if scan.kind != ScanKind::Late {
        return Some(scan);
    }
    note(lane, scan, Vec::new(), (0, 0), false);
    lane.next_scan(now)
}

fn kind(lane: &mut Lane) -> Option<ScanKind> {
    next(lane, NOW).map(|scan| scan.kind)
}

/// Reads a full page of new rows from the front.
fn read(lane: &mut Lane, ids: std::ops::Range<i64>) {
    let scan = next(lane, NOW).unwrap();
    assert_eq!(scan.kind, ScanKind::Front);
    let (rows, last): (Vec<FoundRow>, i64) = (ids.clone().map(found).collect(), ids.end - 1);
    let read = rows.len();
    note(lane, scan, rows, (read, last), true);
}

#[test]
fn nothing_more_is_read_while_enough_waits() {
    let mut lane = lane();
    let most = LANE_WAITING_LOW as i64;
    read(&mut lane, 1..most);
    assert_eq!(kind(&mut lane), Some(ScanKind::Front));
    read(&mut lane, most..most + 1);
    assert_eq!(kind(&mut lane), None);
    lane.take(usize::MAX).unwrap();
    assert_eq!(kind(&mut lane), Some(ScanKind::Front));
}

#[test]
fn nothing_new_is_read_while_too_many_keys_are_known() {
    let mut lane = lane();
    let (page, mut taken) = (LANE_PAGE_ROWS_MAX as i64, None);
    for first in (1..=LANE_KEYS_MAX as i64).step_by(LANE_PAGE_ROWS_MAX) {
        read(&mut lane, first..first + page);
        // In flight, so that few wait.
        while let Some((key, sending, _)) = lane.take(usize::MAX) {
            taken = Some((key, sending.row));
        }
    }
    assert_eq!((lane.keys.len(), lane.waiting), (LANE_KEYS_MAX, 0));
    assert_eq!(kind(&mut lane), None);
    let (key, row) = taken.unwrap();
    lane.done(key, row);
    assert_eq!(kind(&mut lane), Some(ScanKind::Front));
}

#[test]
fn a_commit_without_an_id_has_the_last_ids_read_again_and_no_more() {
    let mut lane = lane();
    let last = 5 * LANE_WAKEUP_SLACK_IDS;
    read(&mut lane, last..last + 1);
    // Sees that no transaction below it is open.
    let empty = next(&mut lane, NOW).unwrap();
    note(&mut lane, empty, Vec::new(), (0, last), false);
    assert_eq!(kind(&mut lane), None);
    lane.rewind(None);
    assert_eq!(next(&mut lane, NOW).map(|scan| scan.after), Some(last - LANE_WAKEUP_SLACK_IDS));
    lane.rewind(None);
    assert_eq!(
        next(&mut lane, NOW).map(|scan| scan.after),
        Some(last - LANE_WAKEUP_SLACK_IDS),
        "the number of rewinds makes no difference"
    );
    let known = last - LANE_WAKEUP_SLACK_IDS * 2;
    lane.rewind(Some(known));
    assert_eq!(
        next(&mut lane, NOW).map(|scan| scan.after),
        Some(known - 1),
        "reading goes back to an id that is known"
    );
}

#[test]
fn so_much_is_read_again_and_after_a_pause_where_it_is_much() {
    for (read, reread, pause) in [
        (LANE_PAGE_ROWS_MAX, LANE_PAGE_ROWS_MAX, Duration::ZERO),
        (LANE_PAGE_ROWS_MAX + 1, LANE_PAGE_ROWS_MAX + 1, LANE_RECHECK),
        (LANE_REREAD_ROWS_MAX * 3, LANE_REREAD_ROWS_MAX, LANE_RECHECK),
    ] {
        let mut lane = lane();
        let scan = next(&mut lane, NOW).unwrap();
        note(&mut lane, scan, Vec::new(), (read, 9), true);
        assert!(pause.is_zero() || next(&mut lane, NOW + pause - MILLISECOND).is_none(), "{read}");
        let scan = next(&mut lane, NOW + pause).unwrap();
        assert_eq!((scan.kind, scan.reread), (ScanKind::Front, reread));
    }
}

#[test]
fn rows_in_flight_from_an_earlier_ownership_are_read_again_after_a_pause() {
    let mut lane = lane();
    let scan = next(&mut lane, NOW).unwrap();
    note(&mut lane, scan, vec![FoundRow { in_ledger: true, ..found(7) }], (1, 7), false);
    lane.unblock(NOW + LANE_RECHECK - MILLISECOND);
    assert!(lane.take(usize::MAX).is_none());
    lane.unblock(NOW + LANE_RECHECK);
    assert_eq!(lane.take(usize::MAX).map(|(_, waiting, _)| waiting.row.id), Some(7));
}

#[test]
fn pages_that_are_full_of_held_rows_are_read_with_a_pause_between_them() {
    let mut lane = lane();
    read(&mut lane, 50..51);
    for page in 1..5 {
        let at = NOW + LANE_LATE_PAUSE * (page - 1);
        let late = lane.next_scan(at).filter(|scan| scan.kind == ScanKind::Late).unwrap();
        assert_eq!(late.after, i64::from(page - 1));
        let page_of_held = Page { read: 1, is_full: true, read_at: (at, at), ..self::page(Vec::new(), page.into()) };
        lane.note(late, &page_of_held, at + POLL);
        // One read from the front comes with it.
        while let Some(front) = lane.next_scan(at) {
            assert_eq!(front.kind, ScanKind::Front);
            note(&mut lane, front, Vec::new(), (0, 50), false);
        }
        assert!(lane.next_scan(at + LANE_LATE_PAUSE - MILLISECOND).is_none(), "{page}");
    }
}

#[test]
fn a_lane_is_read_from_its_beginning_as_seldom_as_that_takes_long() {
    let mut lane = lane();
    read(&mut lane, 50..51);
    while lane.low_watermark.id() < 50 {
        lane.expect();
        let front = next(&mut lane, NOW).unwrap();
        note(&mut lane, front, Vec::new(), (0, 50), false);
    }
    let (took, mut from_the_beginning, polls) = (POLL / 5, 0, 100);
    for poll in 1..=polls {
        let at = NOW + POLL * poll;
        let late = lane.next_scan(at).filter(|scan| scan.kind == ScanKind::Late).unwrap();
        from_the_beginning += u32::from(late.after == 0);
        let took = if late.after == 0 { took } else { MILLISECOND };
        lane.note(late, &Page { read_at: (at, at + took), ..page(Vec::new(), late.after) }, at + POLL);
    }
    assert!(from_the_beginning > 0);
    assert!(took * FULL_SCAN_PAUSE_FACTOR * (from_the_beginning - 1) <= POLL * polls, "{from_the_beginning}");
}

#[test]
fn a_page_from_the_beginning_that_is_not_there_in_time_is_followed_by_one_from_the_low_watermark() {
    let mut lane = lane();
    read(&mut lane, 50..51);
    lane.expect();
    let front = next(&mut lane, NOW).unwrap();
    note(&mut lane, front, Vec::new(), (0, 50), false);
    let after = |lane: &Lane, at| lane.next_scan(at).filter(|scan| scan.kind == ScanKind::Late).map(|scan| scan.after);
    assert_eq!(after(&lane, NOW + POLL), Some(0));
    lane.note_scan_duration(lane.next_scan(NOW + POLL).unwrap(), (NOW + POLL, NOW + POLL * 2));
    assert_eq!(after(&lane, NOW + POLL * 2), Some(50));
    assert_eq!(after(&lane, NOW + POLL * (2 + FULL_SCAN_PAUSE_FACTOR)), Some(0));
}

#[test]
fn the_last_page_of_a_full_scan_ends_no_pause_of_the_first() {
    let mut lane = lane();
    read(&mut lane, 50..51);
    lane.expect();
    let front = next(&mut lane, NOW).unwrap();
    note(&mut lane, front, Vec::new(), (0, 50), false);
    let mut at = NOW + POLL;
    for (last, took, is_full) in [(7, POLL, true), (7, MILLISECOND, false)] {
        let late = lane.next_scan(at).filter(|scan| scan.kind == ScanKind::Late).unwrap();
        assert_eq!(late.after, if is_full { 0 } else { 7 });
        let page = Page { read: 1, is_full, read_at: (at, at + took), ..page(Vec::new(), last) };
        at = at + took;
        lane.note(late, &page, at + POLL);
        // One read from the front comes with a full page.
        if is_full {
            let front = lane.next_scan(at).unwrap();
            note(&mut lane, front, Vec::new(), (0, 50), false);
            at = at + LANE_LATE_PAUSE;
        }
    }
    let late = lane.next_scan(at + POLL).filter(|scan| scan.kind == ScanKind::Late);
    assert_eq!(late.map(|scan| scan.after), Some(50));
}

/// Reads the lane to its end, from `began_at` on.
fn read_to_the_end(lane: &mut Lane, began_at: BootInstant, last: i64) {
    lane.expect();
    let scan = lane.next_scan(NOW).unwrap();
    let rows = if last > 0 { vec![found(last)] } else { Vec::new() };
    lane.note(scan, &Page { read_at: (began_at, began_at), ..page(rows, last) }, NOW + POLL);
}

fn arrives(lane: &mut Lane, id: i64, announced_at: BootInstant) -> Option<bool> {
    let FoundRow { key, waiting, .. } = found(id);
    lane.arrive(key, waiting, announced_at, NOW)
}

#[test]
fn an_announced_row_takes_its_place_if_the_lane_was_read_since() {
    let mut lane = lane();
    let (before, later) = (NOW, NOW + MILLISECOND);
    assert_eq!(arrives(&mut lane, 7, before), None, "it was never read");
    read_to_the_end(&mut lane, before, 0);
    assert_eq!(arrives(&mut lane, 7, later), None, "the lane was not read since it was announced");
    read_to_the_end(&mut lane, later, 6);
    assert_eq!(arrives(&mut lane, 6, later), None, "a page has returned this row");
    assert_eq!(arrives(&mut lane, 5, later), None, "a page may have returned this row");
    assert_eq!(arrives(&mut lane, 7, later), Some(false));
    let mut next = || lane.take(usize::MAX).map(|(_, taken, _)| taken.row.id);
    assert_eq!([next(), next(), next()], [Some(6), Some(7), None]);
    lane.rewind(Some(9));
    assert_eq!(arrives(&mut lane, 8, later), None, "the last read may have missed a row that was committed since");
}

#[test]
fn a_row_that_was_announced_to_an_earlier_owner_does_not() {
    let mut lane = lane();
    read_to_the_end(&mut lane, NOW, 0);
    let before = BootInstant::from_boot(Duration::from_secs(8));
    assert_eq!(arrives(&mut lane, 7, before), None, "the earlier owner may have sent it");
    assert_eq!(arrives(&mut lane, 7, NOW), Some(false));
}

#[test]
fn an_announced_row_is_read_if_a_page_was_full_or_enough_rows_wait() {
    let mut lane = lane();
    read(&mut lane, 1..3);
    assert_eq!(arrives(&mut lane, 7, NOW), None, "there is more behind the page");
    let most = LANE_WAITING_LOW as i64;
    read(&mut lane, 3..most + 3);
    lane.covered_at = Some(NOW);
    assert_eq!(arrives(&mut lane, most + 3, NOW), None);
}

/// What was read of the key so far says nothing about the arrival: a full page up to it is not the end.
#[test]
fn rows_that_arrived_for_a_waiting_key_are_read_behind_a_full_page() {
    for comes_before_the_failure in [true, false] {
        let (mut lane, later) = (lane(), NOW + MILLISECOND);
        read_to_the_end(&mut lane, NOW, 7);
        assert_eq!(kind(&mut lane), None);
        let (key, failed, _) = lane.take(usize::MAX).unwrap();
        let (next, last) = (found(8).waiting, found(10).waiting);
        if !comes_before_the_failure {
            lane.block(key, failed.row, later);
        }
        for waiting in [next, last] {
            assert_eq!(lane.arrive(key, waiting, NOW, NOW), Some(false));
        }
        if comes_before_the_failure {
            lane.block(key, failed.row, later);
        }
        lane.unblock(later);
        let of_key = |waiting| FoundRow { key, waiting, in_ledger: false };
        let (one, both) = (vec![of_key(next)], vec![of_key(next), of_key(last)]);
        for (rows, last, is_full) in [(one, 8, true), (both, 10, false)] {
            let scan = lane.next_scan(later).unwrap();
            assert_eq!(scan.kind, ScanKind::Front, "the scan begins behind the last row that was read");
            let read = rows.len();
            note(&mut lane, scan, rows, (read, last), is_full);
        }
        assert_eq!(goes(&mut lane), [7, 8, 10]);
    }
}

/// If they were remembered while there is no room to read them, a lane full of such keys would never have room.
#[test]
fn a_key_of_which_only_more_is_to_be_read_makes_room() {
    let (mut lane, mut head, later) = (lane(), None, NOW + MILLISECOND);
    for first in (1..=LANE_KEYS_MAX as i64).step_by(LANE_PAGE_ROWS_MAX) {
        read(&mut lane, first..first + LANE_PAGE_ROWS_MAX as i64);
        while let Some((key, sending, _)) = lane.take(usize::MAX) {
            head = head.or((key == 1).then_some(sending.row));
        }
    }
    let behind = FoundRow { key: 1, ..found(2 * LANE_KEYS_MAX as i64) };
    lane.block(1, head.unwrap(), later);
    let late = Scan { kind: ScanKind::Late, after: 0, reread: 0, front: lane.front, is_complete: true };
    note(&mut lane, late, vec![behind], (1, behind.waiting.row.id), true);
    lane.unblock(later);
    assert_eq!(goes(&mut lane), [1]);
    assert_eq!((lane.keys.len(), kind(&mut lane)), (LANE_KEYS_MAX, None));
    lane.make_room();
    assert_eq!((lane.keys.len(), kind(&mut lane)), (LANE_KEYS_MAX - 1, Some(ScanKind::Front)));
    assert!(
        lane.to_refill.is_empty() && lane.covered_at.is_none(),
        "what comes next of the key is not taken for its first"
    );
}

/// A refill beyond the front is left to the next page from there, which is read at once.
#[test]
fn rows_left_by_a_page_come_with_the_next_from_the_front() {
    let (mut lane, later) = (lane(), NOW + MILLISECOND);
    let of_key = |id| FoundRow { key: 1, ..found(id) };
    let [five, six, nine] = [5, 6, 9].map(of_key);
    let first = lane.next_scan(NOW).unwrap();
    // So young that others may still appear in front of them.
    lane.note(first, &Page { youngest: Duration::ZERO, ..page(vec![five, six], 6) }, NOW + POLL);
    assert_eq!(kind(&mut lane), None);
    lane.take(usize::MAX).unwrap();
    lane.block(1, five.waiting.row, later);
    lane.unblock(later);
    let refill = lane.next_scan(later).unwrap();
    assert_eq!((refill.kind, refill.after, refill.is_complete), (ScanKind::Refill, 5, false));
    note(&mut lane, refill, vec![six, nine], (2, 9), false);
    assert_eq!(goes(&mut lane), [5, 6], "rows 7 and 8 may be visible by now, so 9 waits");
    let front = lane.next_scan(later).unwrap();
    assert_eq!((front.kind, front.after), (ScanKind::Front, 0));
    note(&mut lane, front, vec![of_key(7), nine], (4, 9), false);
    assert_eq!(goes(&mut lane), [7, 9]);
}

/// The ids that are sent, in order.
fn goes(lane: &mut Lane) -> Vec<i64> {
    let mut gone = Vec::new();
    while let Some((key, WaitingRow { row, .. }, _)) = lane.take(usize::MAX) {
        lane.done(key, row);
        gone.push(row.id);
    }
    gone
}
