//! However many messages there are, memory is bounded.

use std::time::{Duration, SystemTime};

use diesel_outbox::MessageId;

use super::shop::{Shop, verdicts};
use crate::compare::{Rules, compare};
use crate::entry::{Entry, Millis, Origin};
use crate::limits::{ENTRY_BYTES_IN_MEMORY, RUNS_MAX, SORTED_ENTRIES_MAX};
use crate::order;
use crate::record::Record;
use crate::sorter::{SortLimits, Sortable, Sorter};

/// Buffers of three entries, so that each comparison goes through many files.
#[tokio::test]
async fn a_comparison_through_many_files_finds_the_same() {
    let mut shop = Shop::open();
    let mut lost = Vec::new();
    for number in 0..60 {
        let row = shop.pay(&(number % 5).to_string(), 0).await;
        if number % 20 == 7 {
            shop.topic.remove(row.message_id);
            lost.push(("lost", Some(row.message_id)));
        }
    }
    for (offset, record) in (0..).zip(&mut shop.topic.partitions[0]) {
        record.offset = offset;
    }
    for limits in [(3, 2), (7, 64), (10_000, 64)] {
        let verification = shop.verification("payments").sort_limits(limits.0, limits.1);
        let report = verification.run(&mut shop.topic, |_| {}).await.expect("verified");
        let mut found = verdicts(&report);
        found.sort_unstable();
        assert_eq!(found, lost, "with {limits:?}");
        assert_eq!((report.compared.sent, report.compared.matched), (60, 57));
    }
}

fn rules() -> Rules {
    Rules {
        complete_from: None,
        is_compacted: false,
        is_unread: false,
        started_at: Millis(i64::MAX),
        delay: Duration::ZERO,
        findings_max: 10,
    }
}

/// A hundred thousand messages, and one of them with as many copies: what is in memory is the buffer, and nothing that grows.
#[test]
fn many_messages_and_many_copies_take_one_buffer() {
    const MESSAGES: usize = 100_000;
    let limits = SortLimits { entries_max: 2_000, runs_max: 8, ..SortLimits::default() };
    let mut sorter = Sorter::new(&limits);
    let mut first = None;
    for number in 0..MESSAGES {
        let id = MessageId::new();
        let record = Record::new(0, number as i64, SystemTime::UNIX_EPOCH);
        let record = Entry::of_record(&record, id);
        let first = *first.get_or_insert(record);
        let (row, copy) = (record.moved(Origin::History, 1), first.moved(Origin::Topic, record.position + 1));
        for entry in [row, record, copy] {
            sorter.push(entry).expect("pushed");
        }
    }
    let compared = compare(sorter.sorted().expect("sorted"), &rules(), &limits).expect("compared");
    assert_eq!(compared.matched, MESSAGES as u64);
    assert_eq!((compared.doubled.total, compared.doubled.kept.len()), (1, 1));
    assert_eq!(compared.doubled.kept[0].1, MESSAGES as u64 + 1);
    let order = order::check(compared.order.sorted().expect("sorted"), 10).expect("checked");
    assert_eq!(order.reordered.total, 0);
}

/// The bound that limits.rs states.
#[test]
fn the_stated_bounds_hold() {
    let sorted = SORTED_ENTRIES_MAX * (size_of::<Entry>() + size_of::<crate::entry::Placed>());
    assert!(sorted < 64_000_000, "{sorted} bytes");
    assert_eq!(Entry::BYTES, 86);
    assert!(size_of::<Entry>() <= ENTRY_BYTES_IN_MEMORY);
    let files = (20_000_000_usize).div_ceil(SORTED_ENTRIES_MAX);
    assert!(files <= RUNS_MAX, "10 million messages make {files} files");
}
