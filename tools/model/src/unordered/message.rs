//! A message, and its row.

use super::relay_view::RelayView;
use super::state::RelayId;

/// Attempts before a message is dead: two, so that the first refusal retries and the second is final.
pub const ATTEMPTS_MAX: u8 = 2;

/// A message: where it is, and what each relay knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// Where the database has it.
    pub row: Row,
    /// The relays' knowledge.
    pub view: [RelayView; 2],
    /// How many copies the broker has stored; two stand for more.
    pub copies: u8,
    /// Whether a second copy has a reason: a crash, a pause, a lost acknowledgement, a database outage.
    pub duplicate_allowed: bool,
    /// The relays that got the broker's acknowledgement and have not died since.
    pub acknowledged_to: [bool; 2],
    /// Whether its transaction took longer than the slack of the watermark.
    pub exceeds_slack: bool,
    /// Whether it lies below a relay's watermark, where only a full scan sees it.
    pub hidden: [bool; 2],
    /// Whether it has the same `id` as another message (never the same message id).
    pub shares_id: bool,
}

/// Where the database has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    /// Not enqueued yet.
    Unwritten,
    /// In an open transaction, visible to nobody else.
    Uncommitted {
        /// The process that wrote it.
        by: RelayId,
        /// Whether it is delayed.
        delayed: bool,
    },
    /// In the table.
    Live(Live),
    /// Removed as delivered.
    Settled,
    /// In the dead letters.
    DeadLetter,
    /// Its transaction was rolled back.
    RolledBack,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Live {
    /// The meaning of `due_at`.
    pub due: Due,
    /// `epoch`.
    pub epoch: u8,
    /// `attempts`.
    pub attempts: u8,
    /// The relay whose open claim has locked it.
    pub locked_by: Option<RelayId>,
}

/// `due_at`: which side of the database's clock it is on, and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Due {
    /// Not in the future: any sweeper may take the row.
    Now,
    /// In the future, leased to a holder.
    LeasedTo(RelayId),
    /// In the future, without a holder: a back-off, or a lease whose holder is gone.
    Later,
    /// In the future, without a holder: it may not be sent before.
    Delayed,
}

impl Message {
    /// A message that is not enqueued yet.
    pub const UNWRITTEN: Self = Self {
        row: Row::Unwritten,
        view: [RelayView::NOTHING; 2],
        copies: 0,
        duplicate_allowed: false,
        acknowledged_to: [false; 2],
        exceeds_slack: false,
        hidden: [false; 2],
        shares_id: false,
    };

    /// The row, if it is in the table.
    pub fn live(&self) -> Option<&Live> {
        match &self.row {
            Row::Live(live) => Some(live),
            _ => None,
        }
    }

    /// Like [`live`](Self::live), mutable.
    pub fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.row {
            Row::Live(live) => Some(live),
            _ => None,
        }
    }

    /// A relay's knowledge of it.
    pub fn of(&self, relay: RelayId) -> &RelayView {
        &self.view[relay as usize]
    }

    /// Like [`of`](Self::of), mutable.
    pub fn of_mut(&mut self, relay: RelayId) -> &mut RelayView {
        &mut self.view[relay as usize]
    }

    /// Writes `due_at`. The new value is above every watermark, because those stay behind the clock (I2). Returns the
    /// epoch.
    pub(super) fn write_due(&mut self, due: Due, raises_epoch: bool) -> Option<u8> {
        self.hidden = [false; 2];
        let live = self.live_mut()?;
        live.due = due;
        live.epoch += u8::from(raises_epoch);
        Some(live.epoch)
    }

    /// The same with the relays' names exchanged.
    pub(super) fn swap_relays(&mut self) {
        self.view.swap(0, 1);
        self.hidden.swap(0, 1);
        self.acknowledged_to.swap(0, 1);
        match &mut self.row {
            Row::Uncommitted { by, .. } => *by = by.other(),
            Row::Live(live) => {
                live.locked_by = live.locked_by.map(RelayId::other);
                live.due = live.due.swapped();
            }
            _ => {}
        }
    }

    /// Whether it is settled, dead or rolled back.
    pub fn is_finished(&self) -> bool {
        matches!(self.row, Row::Settled | Row::DeadLetter | Row::RolledBack)
    }

    /// Whether it is finished, and no relay holds anything of it.
    pub fn has_ended(&self) -> bool {
        self.is_finished() && self.is_forgotten()
    }

    /// Whether it is not due yet, and a relay has it all the same.
    pub fn is_early(&self) -> bool {
        let waits = self.live().is_some_and(|live| live.due == Due::Delayed);
        waits && (self.copies > 0 || self.view.iter().any(|view| view.entry.is_some() || view.claimed.is_some()))
    }

    /// Whether no relay remembers it.
    pub fn is_forgotten(&self) -> bool {
        self.view == [RelayView::NOTHING; 2]
    }
}

impl Live {
    /// Its holder, by a lock or by a lease.
    pub fn holder(&self) -> Option<RelayId> {
        match (self.locked_by, self.due) {
            (Some(relay), _) | (None, Due::LeasedTo(relay)) => Some(relay),
            (None, Due::Now | Due::Later | Due::Delayed) => None,
        }
    }
}

impl Due {
    fn swapped(self) -> Self {
        match self {
            Self::LeasedTo(relay) => Self::LeasedTo(relay.other()),
            Self::Now | Self::Later | Self::Delayed => self,
        }
    }
}
