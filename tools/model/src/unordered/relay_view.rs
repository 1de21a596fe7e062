//! What a relay knows of a message. It is lost when its process dies.

/// A relay's memory of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayView {
    /// Its place on the path from the hook to the ledger.
    pub direct: DirectPath,
    /// Its place in the open claim.
    pub claimed: Option<Claimed>,
    /// Its entry in the ledger: handed to the transport and not yet settled.
    pub entry: Option<Entry>,
}

/// A row on the direct path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DirectPath {
    /// Not on it.
    No,
    /// A ref: in the hook's buffer, or in the queue.
    Ref,
    /// Confirmed, or inline with a verified commit; not yet offered to the transport.
    Read(Lease),
}

/// A row of an open claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claimed {
    /// The epoch under which it was read, or which the claim wrote if it leases.
    pub epoch: u8,
    /// Its stage.
    pub stage: Stage,
}

/// How far a claimed row has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Not yet offered to the transport, within its lease.
    Ready,
    /// Not yet offered to the transport, and its lease is over.
    Late,
    /// With the transport, sent by this claim or before it.
    Sent,
    /// Not to be sent: it is released unchanged.
    Untouched,
}

/// A lease as its holder remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// Its epoch.
    pub epoch: u8,
    /// Whether the holder's own clock is still before its end, which comes earlier than in the database.
    pub running: bool,
}

/// `relay::ledger::Entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Who handles the outcome.
    pub holder: Holder,
    /// How far the send has come.
    pub progress: Progress,
}

/// `relay::ledger::Holder`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// The open claim.
    Claim,
    /// A lease of this process.
    Lease(Lease),
    /// None: only a success can still be settled.
    Lost,
}

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Progress {
    /// In the client: its buffer, or the wire.
    InClient,
    /// The broker stored it; the acknowledgement is in flight.
    Stored,
    /// Acknowledged.
    Delivered,
    /// Failed.
    Failed(Class),
}

/// `transport::FailureClass`, by its handling. Refused topics and suspects are not modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A failure of the record: spends an attempt.
    Record,
    /// Says nothing about the record: spends nothing.
    Temporary,
    /// The broker is down: nothing is written.
    Outage,
}

impl RelayView {
    /// Nothing.
    pub const NOTHING: Self = Self { direct: DirectPath::No, claimed: None, entry: None };

    /// Whether this relay could still send or hold the message, as far as it remembers.
    pub fn believes_to_hold(&self) -> bool {
        let read = matches!(self.direct, DirectPath::Read(lease) if lease.running);
        let leased = matches!(self.entry, Some(Entry { holder: Holder::Lease(lease), .. }) if lease.running);
        read || leased || self.is_ready()
    }

    /// Whether its claim is about to send it.
    pub fn is_ready(&self) -> bool {
        self.claimed.is_some_and(|claimed| claimed.stage == Stage::Ready)
    }

    /// How far its send has come.
    pub fn progress(&self) -> Option<Progress> {
        self.entry.map(|entry| entry.progress)
    }

    /// The lease of its entry.
    pub fn lease(&self) -> Option<Lease> {
        match self.entry?.holder {
            Holder::Lease(lease) => Some(lease),
            Holder::Claim | Holder::Lost => None,
        }
    }

    /// Ends every lease that it remembers.
    pub(super) fn end_terms(&mut self) {
        if let DirectPath::Read(lease) = &mut self.direct {
            lease.running = false;
        }
        if let Some(claimed) = self.claimed.as_mut().filter(|claimed| claimed.stage == Stage::Ready) {
            claimed.stage = Stage::Late;
        }
        self.set_lease(false);
    }

    /// Sets whether its entry's lease is running.
    pub(super) fn set_lease(&mut self, running: bool) {
        if let Some(Entry { holder: Holder::Lease(lease), .. }) = &mut self.entry {
            lease.running = running;
        }
    }
}
