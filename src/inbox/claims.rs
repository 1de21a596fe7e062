//! What a claim asks of the database, and what it answers.

use std::collections::HashSet;

use uuid::Uuid;

use super::InboxKey;

/// The messages of one statement.
#[derive(Debug, Clone, Copy)]
pub struct ClaimedKeys<'a> {
    /// The table of entries, with its schema.
    pub(crate) entries: &'a str,
    /// Where the inbox's start is, with the schema.
    pub(crate) start: &'a str,
    /// The consumer's number.
    pub(crate) consumer: i64,
    /// Ascending, and each once: two claims that lock the same keys in different orders would deadlock.
    pub(crate) keys: &'a [InboxKey],
    /// The last start of the inbox that this process has seen; beyond all times if none.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only PostgreSQL has a shorter claim for recent keys")
    )]
    pub(crate) seen_start_ms: i64,
    /// The depth of a transaction that was begun with a flag, if the claim is to fail without it. Only a claim of a single key can.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only PostgreSQL sends BEGIN and the claim together")
    )]
    pub(crate) flagged: Option<u32>,
}

/// The answer to a claim.
#[derive(Debug, Clone, Default)]
pub struct ClaimAnswer {
    /// The keys whose entries the claim has written.
    pub(crate) new: HashSet<Uuid>,
    /// From when on entries are kept, in milliseconds since 1970. It is read after the entries were written: what was removed before
    /// them lies below. `None` if nothing says it.
    pub(crate) kept_from_ms: Option<i64>,
}

impl ClaimAnswer {
    /// Of two statements in one transaction. The later start counts: it is above the other.
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.new.extend(other.new);
        self.kept_from_ms = self.kept_from_ms.max(other.kept_from_ms);
        self
    }
}
