//! How commits of this process reach the lanes: what to read, and inline rows that need no read.
//!
//! A row of a lane may go once every row that was committed before it was written is known, which takes a read of the
//! lane. That read need not wait for the commit: a read that begins after COMMIT is announced sees all of them. So the
//! lane is read during the commit.

use std::hash::BuildHasher as _;
use std::sync::atomic::Ordering;

use super::TopicLanes;
use super::arrivals::Arrival;
use crate::clock::BootInstant;
use crate::relay::direct::queue::InlineRow;
use crate::relay::lanes::lane::page::WaitingRow;

impl TopicLanes {
    /// Rows were committed to a lane. Committing threads call this: it waits for no more than another such call.
    pub(crate) fn add_pending_read(&self, lane: u16, id: Option<i64>) {
        self.pending_reads.note(lane, id);
        self.reader_wakeup.notify_one();
    }

    /// A row is about to be committed to a lane in this process; the COMMIT may still fail. Never waits, either.
    pub(crate) fn announced(&self, lane: u16) {
        self.announced.note(lane, None);
        self.reader_wakeup.notify_one();
    }

    /// A row was committed to a lane in this process at `at`, by its hook's account. Never waits, either.
    pub(crate) fn committed(&self, lane: u16, id: Option<i64>, at: BootInstant, inline: Option<Box<InlineRow>>) {
        let arrival = inline.as_deref().and_then(|inline| self.arrival(lane, inline));
        if let Some(id) = id {
            self.commits.note(id, at, inline);
        }
        match arrival {
            Some(arrival) if self.arrivals.push(arrival) => self.reader_wakeup.notify_one(),
            _ => self.add_pending_read(lane, id),
        }
    }

    fn arrival(&self, lane: u16, inline: &InlineRow) -> Option<Arrival> {
        let InlineRow { row, inserted_at, announced_at } = inline;
        let bytes = row.envelope.payload.as_ref().map_or(0, Vec::len);
        Some(Arrival {
            lane,
            key: self.hasher.hash_one(row.envelope.key.as_deref()),
            waiting: WaitingRow { row: row.key, bytes, since: *inserted_at },
            announced_at: (*announced_at)?,
        })
    }

    /// Passes new commits to the lanes and unblocks keys whose wait is over. Returns how many rows came late.
    pub(crate) fn refresh(&self, now: BootInstant) -> usize {
        // Locked before anything is taken, so that an idle check finds each commit here or in the lanes.
        let (mut owned, mut late) = (self.owned(), 0);
        // In this order: if a row of a transaction has to be read, that was noted before the row behind it arrived.
        let arrived = self.arrivals.take();
        let (pending_reads, announced) = (self.pending_reads.take(), self.announced.take());
        for (lane, id) in pending_reads {
            if let Some(lane) = owned.get_mut(&lane) {
                lane.rewind(id);
            }
        }
        for Arrival { lane, key, waiting, announced_at } in arrived {
            let Some(lane) = owned.get_mut(&lane) else { continue };
            match lane.arrive(key, waiting, announced_at, now) {
                Some(is_late) => {
                    late += usize::from(is_late);
                    self.seen.fetch_add(1, Ordering::Relaxed);
                }
                None => lane.rewind(Some(waiting.row.id)),
            }
        }
        for (lane, _) in announced {
            if let Some(lane) = owned.get_mut(&lane) {
                lane.expect();
            }
        }
        for lane in owned.values_mut() {
            lane.unblock(now);
            lane.make_room();
        }
        late
    }
}
