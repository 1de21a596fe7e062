//! What a relay knows of a message. All of it is lost when its process dies.

/// What a relay's memory has of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayView {
    /// Its way from the hook to the ledger.
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
    /// Confirmed, or carried by a transaction whose commit was proven; not yet offered to the transport.
    Read(Lease),
}

/// A row of an open claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claimed {
    /// The epoch under which it was read; where the claim leases, the one it wrote.
    pub epoch: u8,
    /// What became of it.
    pub stage: Stage,
}

/// How far a claimed row has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Not yet offered to the transport, within its term.
    Ready,
    /// Not yet offered to the transport, and its term is over.
    Late,
    /// With the transport, sent by this claim or before it.
    Sent,
    /// Not to be sent: it goes back as it is.
    Untouched,
}

/// A lease as its holder remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// Under which epoch.
    pub epoch: u8,
    /// Whether the term, which ends before the lease does, still runs by the process's own clock.
    pub running: bool,
}

/// `relay::ledger::Entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Who takes the outcome.
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
    /// Nobody: only a success can still be settled.
    Lost,
}

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Progress {
    /// In the client: its buffer, or the wire.
    InClient,
    /// The broker has it; the acknowledgement is on its way.
    Stored,
    /// Acknowledged.
    Delivered,
    /// Failed.
    Failed(Class),
}

/// `transport::FailureClass`, by its treatment. Refused topics and suspects are not modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// An answer about the record: spends an attempt.
    Record,
    /// Says nothing: spends nothing.
    Temporary,
    /// The broker is away: nothing is written.
    Outage,
}

impl RelayView {
    /// Nothing.
    pub const NOTHING: Self = Self { direct: DirectPath::No, claimed: None, entry: None };

    /// Whether this relay could still send the message, or hold it, by what it remembers.
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

    /// Every term that it remembers is over.
    pub(super) fn end_terms(&mut self) {
        if let DirectPath::Read(lease) = &mut self.direct {
            lease.running = false;
        }
        if let Some(claimed) = self.claimed.as_mut().filter(|claimed| claimed.stage == Stage::Ready) {
            claimed.stage = Stage::Late;
        }
        self.set_lease(false);
    }

    /// Says of the lease of its entry whether the term runs.
    pub(super) fn set_lease(&mut self, running: bool) {
        if let Some(Entry { holder: Holder::Lease(lease), .. }) = &mut self.entry {
            lease.running = running;
        }
    }
}
