use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::store::StoreError;

/// A method of the store interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// [`Store::check`](crate::store::Store::check)
    Check,
    /// [`Store::confirm`](crate::store::Store::confirm)
    Confirm,
    /// [`Store::remaining`](crate::store::Store::remaining)
    Remaining,
    /// [`Store::claim`](crate::store::Store::claim)
    Claim,
    /// [`ClaimHandle::close`](crate::store::ClaimHandle::close)
    Close,
    /// [`Store::settle`](crate::store::Store::settle)
    Settle,
    /// [`Store::settle_dead_letters`](crate::store::Store::settle_dead_letters)
    SettleDeadLetters,
    /// [`Store::extend`](crate::store::Store::extend)
    Extend,
    /// [`Store::fail`](crate::store::Store::fail)
    Fail,
    /// [`Store::dead_letter`](crate::store::Store::dead_letter)
    DeadLetter,
    /// [`Store::poll`](crate::store::Store::poll)
    Poll,
    /// A poll from the beginning, before it also counts as [`Poll`](Self::Poll).
    FullScan,
    /// [`Store::backlog`](crate::store::Store::backlog)
    Backlog,
    /// [`LaneStore::prepare_lanes`](crate::store::LaneStore::prepare_lanes)
    PrepareLanes,
    /// [`LaneStore::read_lanes`](crate::store::LaneStore::read_lanes)
    ReadLanes,
    /// [`LaneStore::balance_lanes`](crate::store::LaneStore::balance_lanes)
    BalanceLanes,
    /// [`LaneStore::lane_entries`](crate::store::LaneStore::lane_entries)
    LaneEntries,
    /// [`LaneStore::lane_rows`](crate::store::LaneStore::lane_rows)
    LaneRows,
    /// [`LaneStore::fail_in_lanes`](crate::store::LaneStore::fail_in_lanes)
    FailInLanes,
    /// [`LaneStore::dead_letter_from_lanes`](crate::store::LaneStore::dead_letter_from_lanes)
    DeadLetterFromLanes,
    /// [`AdminStore::cancel_delayed`](crate::store::AdminStore::cancel_delayed) and
    /// [`AdminStore::cancel_waiting`](crate::store::AdminStore::cancel_waiting)
    CancelDelayed,
    /// [`AdminStore::send_now`](crate::store::AdminStore::send_now)
    SendNow,
    /// [`AdminStore::live_messages`](crate::store::AdminStore::live_messages), and the other reads of live messages
    ReadLive,
    /// [`AdminStore::dead_letters`](crate::store::AdminStore::dead_letters), and the other reads of dead letters
    ReadDeadLetters,
    /// [`AdminStore::count_dead_letters`](crate::store::AdminStore::count_dead_letters)
    CountDeadLetters,
    /// [`AdminStore::redrive`](crate::store::AdminStore::redrive)
    Redrive,
    /// [`AdminStore::purge`](crate::store::AdminStore::purge)
    Purge,
    /// [`AdminStore::replace`](crate::store::AdminStore::replace)
    Replace,
    /// [`AdminStore::pause`](crate::store::AdminStore::pause) and [`AdminStore::resume`](crate::store::AdminStore::resume)
    Pause,
    /// [`AdminStore::paused`](crate::store::AdminStore::paused)
    Paused,
    /// [`HistoryStore::prune`](crate::store::HistoryStore::prune), and the other removals of old rows
    Prune,
    /// [`AuditStore`](crate::store::AuditStore), except for its removals
    Audit,
    /// The reads of [`HistoryStore`](crate::store::HistoryStore), and its admin writes
    History,
}

/// How a call fails, or is slow.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The call has no effect. A claim's close does not commit, and its rows are released.
    Refused(StoreError),
    /// The call has its effect, but the answer is lost.
    ResponseLost(StoreError),
    /// The call takes this long, and then has its effect.
    Slow(Duration),
    /// The call panics, as a bug in a store would, and has no effect.
    Panics,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    queued: HashMap<Call, VecDeque<Fault>>,
    calls: HashMap<Call, u64>,
    down: bool,
}

impl Faults {
    pub(super) fn inject(&mut self, call: Call, fault: Fault) {
        self.queued.entry(call).or_default().push_back(fault);
    }

    pub(super) fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    pub(super) fn calls(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or(0)
    }

    /// Counts a call and returns its fault: the delay before it, and `Err` before its effect or `Some` after it.
    ///
    /// # Panics
    /// If the fault is [`Fault::Panics`].
    pub(super) fn next_fault(&mut self, call: Call) -> Result<(Duration, Option<StoreError>), StoreError> {
        *self.calls.entry(call).or_default() += 1;
        if self.down {
            return Err(StoreError::Unreachable("a test took the memory store down".into()));
        }
        match self.queued.get_mut(&call).and_then(VecDeque::pop_front) {
            Some(Fault::Refused(error)) => Err(error),
            Some(Fault::ResponseLost(error)) => Ok((Duration::ZERO, Some(error))),
            Some(Fault::Slow(by)) => Ok((by, None)),
            Some(Fault::Panics) => panic!("a test injected a panic into the memory store at {call:?}"),
            None => Ok((Duration::ZERO, None)),
        }
    }
}
