//! Lanes: the slices of an ordered topic's keys that nodes share among them.

use std::fmt;

use serde::Serialize;
use uuid::Uuid;

/// The lane of a key: of `lanes` lanes, counted from 0.
///
/// FNV-1a of the key's UTF-8 bytes, 64 bits wide, its upper half xored onto the lower one, modulo the number of lanes. It
/// stands in the rows of databases, so it is the same in every release and on every machine. With no lanes at all there is
/// only lane 0.
///
/// ```
/// use diesel_outbox::lane_of;
/// assert_eq!(lane_of("customer-42", 16), 14);
/// ```
pub fn lane_of(key: &str, lanes: u16) -> u16 {
    let hash = fnv1a(key);
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    let lane = folded.checked_rem(u64::from(lanes)).unwrap_or(0);
    u16::try_from(lane).unwrap_or_else(|_| unreachable!("the rest of a division is below {lanes}"))
}

/// A lane as its column has it: below zero outside of lanes.
pub(crate) fn lane_column(lane: Option<u16>) -> i32 {
    lane.map_or(-1, i32::from)
}

/// Stands in databases, so it must be the same in every release: not `std`'s hasher.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// One running relay among those that share the lanes of a topic. Each start of a relay is a node of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct NodeId(Uuid);

impl NodeId {
    /// A new node.
    #[expect(clippy::new_without_default, reason = "a default that differs at every call would surprise")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id as a UUID, as it stands in the tables.
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl From<Uuid> for NodeId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_keys_never_change() {
        let vectors = [
            ("", 16, 1),
            ("a", 16, 0),
            ("42", 16, 4),
            ("customer-42", 16, 14),
            ("Überweisung", 16, 3),
            ("键", 1_000, 113),
        ];
        for (key, lanes, lane) in vectors {
            assert_eq!(lane_of(key, lanes), lane, "{key:?} of {lanes}");
        }
        assert_eq!(lane_of("any", 1), 0);
        assert_eq!(lane_of("any", 0), 0);
    }

    #[test]
    fn numbered_keys_spread_over_the_lanes() {
        let mut counts = [0_u32; 16];
        for key in 0..16_000 {
            counts[usize::from(lane_of(&format!("order-{key}"), 16))] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
