//! The part of the store interface for ordered topics: who owns which lane, and the rows of a lane.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Failed, Horizon, Loaded, NewDeadLetter, RowKey, StoreError};
use crate::lane::NodeId;

/// A database that also holds the lanes of ordered topics. From [`Store::lanes`](super::Store::lanes).
///
/// A lane has one owner at a time, by a lease on the database's clock, and a fence that grows with every owner. Every write about a
/// lane's rows, except settling, names owner and fence, and changes nothing if they have changed.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// As for [`Store`](super::Store): every call may be repeated.
#[async_trait]
pub trait LaneStore: fmt::Debug + Send + Sync {
    /// Checks that the tables exist, creates the lanes of each topic that has none yet, and compares their number.
    ///
    /// # Errors
    /// [`StoreError::Schema`]: a table is missing; a topic has another number of lanes; or a row is not in the lane of its key, so
    /// it was written for another number of lanes.
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError>;

    /// Whether any row of a topic is in a lane. Reads the table of messages only.
    async fn has_ordered_rows(&self, topic: &Arc<str>) -> Result<bool, StoreError>;

    /// How many lanes each topic has that is or was ordered, by name.
    ///
    /// # Errors
    /// [`SchemaProblem::Missing`](super::SchemaProblem::Missing) if the table of lanes is missing.
    async fn lane_counts(&self) -> Result<Vec<LaneCount>, StoreError>;

    /// Who owns which lane of a topic, and which nodes share them. Writes nothing.
    async fn read_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError>;

    /// Registers the node (or removes it), renews and releases the lanes it owns, and takes free lanes up to its share. All in one
    /// transaction that runs alone among all nodes. Returns the state afterwards: each lane that is the node's own was leased in
    /// this call.
    async fn balance_lanes(&self, spec: &LaneBalanceSpec) -> Result<LaneView, StoreError>;

    /// The rows of lanes after an id, by scan and then by id, without payload and headers. Each scan is a snapshot: it finds a row
    /// together with every row committed before it.
    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError>;

    /// Those of the rows that still exist, by id.
    async fn lane_rows(&self, topic: &Arc<str>, rows: &[RowKey]) -> Result<Vec<Loaded>, StoreError>;

    /// Records failures of rows whose lane the node owns under that fence: stores the error under the next epoch. `due_at` stays,
    /// because the lane's owner does the waiting. Returns the rows recorded.
    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[WithFence<Failed>],
    ) -> Result<Vec<RowKey>, StoreError>;

    /// Moves rows to the dead letters, if the node owns their lane under that fence. Returns those that left the live table.
    async fn dead_letter_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[WithFence<NewDeadLetter>],
    ) -> Result<Vec<RowKey>, StoreError>;
}

/// The configured number of lanes of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneCount {
    /// The topic.
    pub topic: Arc<str>,
    /// Its lanes.
    pub lanes: u16,
}

/// A lane owned under a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnedLane {
    /// The lane's number.
    pub lane: u16,
    /// The fence.
    pub fence: i64,
}

/// What a node asks for of a topic's lanes.
#[derive(Debug, Clone)]
pub struct LaneBalanceSpec {
    /// The topic.
    pub topic: Arc<str>,
    /// The node.
    pub node: NodeId,
    /// The lanes that it owns and wants to keep.
    pub renew: Vec<OwnedLane>,
    /// The lanes that it releases. None of their rows may be in flight.
    pub release: Vec<OwnedLane>,
    /// Whether it shares the lanes with other nodes, and takes free ones up to its share.
    pub joins: bool,
    /// How long lanes are leased, and the node counts as alive.
    pub lease_duration: Duration,
    /// How long the next owner of a lane sends nothing if the previous owner let its lease expire: what that one had in flight may
    /// still arrive.
    pub quiet_duration: Duration,
}

/// The lanes of a topic at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneView {
    /// Every lane, by number.
    pub lanes: Vec<LaneState>,
    /// The live nodes, sorted.
    pub nodes: Vec<NodeId>,
}

/// A lane at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneState {
    /// Its number.
    pub lane: u16,
    /// Its last owner; `None` once that one has released it.
    pub owner: Option<NodeId>,
    /// Grows with every owner.
    pub fence: i64,
    /// How long the owner's lease still lasts; zero if anybody may take the lane.
    pub expires_in: Duration,
    /// How long its owner must still send nothing.
    pub quiet_for: Duration,
}

/// A row of a lane view: a lane, or a node if the number is -1.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[derive(Debug)]
pub(crate) struct LaneViewRow {
    pub(crate) lane: i64,
    pub(crate) owner: Option<NodeId>,
    pub(crate) fence: i64,
    pub(crate) expires_in: Duration,
    pub(crate) quiet_for: Duration,
}

impl LaneView {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn of(rows: impl Iterator<Item = LaneViewRow>) -> Self {
        let mut view = Self::default();
        for LaneViewRow { lane, owner, fence, expires_in, quiet_for } in rows {
            match u16::try_from(lane) {
                Ok(lane) => view.lanes.push(LaneState { lane, owner, fence, expires_in, quiet_for }),
                Err(_) => view.nodes.extend(owner),
            }
        }
        view.lanes.sort_unstable_by_key(|lane| lane.lane);
        view.nodes.sort_unstable();
        view
    }

    /// How many lanes a node may own: the lanes divided by the nodes, with one extra for the first nodes if that leaves a
    /// remainder. Zero for a node that is not alive.
    pub fn share_of(&self, node: NodeId) -> usize {
        let (lanes, nodes) = (self.lanes.len(), self.nodes.len());
        match self.nodes.iter().position(|there| *there == node) {
            Some(place) => lanes / nodes + usize::from(place < lanes % nodes),
            None => 0,
        }
    }
}

/// Where to read a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneScan {
    /// Which lane.
    pub lane: u16,
    /// Only rows with a higher id.
    pub after: i64,
    /// At most this many rows.
    pub rows_max: usize,
}

/// A row of a lane, without payload and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneEntry {
    /// The index of the scan that found it.
    pub scan: usize,
    /// Which row.
    pub row: RowKey,
    /// Its key. A row that somebody wrote without a key has no order with others.
    pub key: Option<String>,
    /// Size of its payload in bytes.
    pub bytes: usize,
    /// The most time that can have passed since it was enqueued, by the database's clock. Transactions open at that time may still
    /// commit rows with lower ids. [`Duration::MAX`] if ids become visible in their order.
    pub age: Duration,
    /// What was visible when it was read; `None` if the database does not report it.
    pub horizon: Option<Horizon>,
}

/// A statement about a row, valid only while its lane is owned under the fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithFence<T> {
    /// The lane's fence.
    pub fence: i64,
    /// The statement.
    pub value: T,
}

/// What balancing does to one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneWrite {
    pub(crate) lane: u16,
    /// Its new fence.
    pub(crate) fence: i64,
    pub(crate) change: LaneChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneChange {
    Renew = 0,
    /// Taken when free, or from ourselves.
    Take = 1,
    /// Taken from an owner whose lease expired. The SQL statements use these numbers.
    TakeOver = 2,
    Release = 3,
}

/// What balancing does to lanes that nobody else can write meanwhile. The same for every store.
pub(crate) fn plan_balance(now: &LaneView, spec: &LaneBalanceSpec) -> Vec<LaneWrite> {
    let is = |held: &[OwnedLane], lane: &LaneState| held.contains(&OwnedLane { lane: lane.lane, fence: lane.fence });
    let (mut writes, mut free) = (Vec::new(), Vec::new());
    for lane in &now.lanes {
        let write = |fence, change| LaneWrite { lane: lane.lane, fence, change };
        match lane.owner {
            Some(owner) if owner == spec.node && is(&spec.release, lane) => {
                writes.push(write(lane.fence, LaneChange::Release));
            }
            // Nobody has taken it, or the fence would differ. So even an expired lane may be renewed.
            Some(owner) if owner == spec.node && is(&spec.renew, lane) => {
                writes.push(write(lane.fence, LaneChange::Renew));
            }
            // Taken by a call whose answer was lost, or not renewed in time. Leased anew even beyond the share: the node treats it
            // as its own, so nobody else may take it. The excess is released next.
            Some(owner) if owner == spec.node => writes.push(write(lane.fence + 1, LaneChange::Take)),
            Some(_) if lane.expires_in.is_zero() => free.push(write(lane.fence + 1, LaneChange::TakeOver)),
            Some(_) => {}
            None => free.push(write(lane.fence + 1, LaneChange::Take)),
        }
    }
    let kept = writes.iter().filter(|write| write.change != LaneChange::Release).count();
    let wanted = if spec.joins { now.share_of(spec.node).saturating_sub(kept) } else { 0 };
    writes.extend(free.into_iter().take(wanted));
    writes
}

/// The lanes after `writes`, given the lanes before.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) fn apply_writes(mut now: LaneView, spec: &LaneBalanceSpec, writes: &[LaneWrite]) -> LaneView {
    for write in writes {
        let Some(lane) = now.lanes.iter_mut().find(|lane| lane.lane == write.lane) else { continue };
        lane.fence = write.fence;
        let is_released = write.change == LaneChange::Release;
        lane.owner = (!is_released).then_some(spec.node);
        lane.expires_in = if is_released { Duration::ZERO } else { spec.lease_duration };
        if write.change == LaneChange::TakeOver {
            lane.quiet_for = spec.quiet_duration;
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(owners: &[Option<NodeId>], nodes: &[NodeId]) -> LaneView {
        let state = |(lane, owner): (usize, &Option<NodeId>)| LaneState {
            lane: lane as u16,
            owner: *owner,
            fence: 7,
            expires_in: Duration::from_secs(10),
            quiet_for: Duration::ZERO,
        };
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        LaneView { lanes: owners.iter().enumerate().map(state).collect(), nodes }
    }

    fn spec(node: NodeId, renew: &[u16], release: &[u16]) -> LaneBalanceSpec {
        let held = |lanes: &[u16]| lanes.iter().map(|&lane| OwnedLane { lane, fence: 7 }).collect();
        LaneBalanceSpec {
            topic: "orders".into(),
            node,
            renew: held(renew),
            release: held(release),
            joins: true,
            lease_duration: Duration::from_secs(30),
            quiet_duration: Duration::from_secs(25),
        }
    }

    fn changes(writes: &[LaneWrite]) -> Vec<(u16, i64, LaneChange)> {
        writes.iter().map(|write| (write.lane, write.fence, write.change)).collect()
    }

    #[test]
    fn shares_add_up_whatever_the_number_of_nodes() {
        let nodes: Vec<NodeId> = (0..7).map(|_| NodeId::new()).collect();
        for lanes in [1_usize, 5, 16, 64] {
            for count in 1..=nodes.len() {
                let view = view(&vec![None; lanes], &nodes[..count]);
                let shares: Vec<usize> = nodes.iter().map(|node| view.share_of(*node)).collect();
                assert_eq!(shares.iter().sum::<usize>(), lanes, "{lanes} lanes of {count} nodes");
                let (least, most) = (shares[..count].iter().min(), shares[..count].iter().max());
                assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{shares:?}");
            }
        }
    }

    #[test]
    fn a_node_takes_no_more_than_its_share() {
        let (me, other) = (NodeId::new(), NodeId::new());
        let now = view(&[None, None, None, Some(me)], &[me, other]);
        let writes = plan_balance(&now, &spec(me, &[3], &[]));
        assert_eq!(changes(&writes), [(3, 7, LaneChange::Renew), (0, 8, LaneChange::Take)]);
    }

    #[test]
    fn a_lane_of_somebody_else_is_left_until_it_expires() {
        let (me, other) = (NodeId::new(), NodeId::new());
        let mut now = view(&[Some(other), Some(other)], &[me]);
        assert_eq!(plan_balance(&now, &spec(me, &[], &[])), []);
        now.lanes[1].expires_in = Duration::ZERO;
        let writes = plan_balance(&now, &spec(me, &[], &[]));
        assert_eq!(changes(&writes), [(1, 8, LaneChange::TakeOver)]);
        let then = apply_writes(now, &spec(me, &[], &[]), &writes);
        assert_eq!((then.lanes[1].owner, then.lanes[1].quiet_for), (Some(me), Duration::from_secs(25)));
    }

    #[test]
    fn nothing_is_renewed_or_released_under_another_fence() {
        let me = NodeId::new();
        let mut now = view(&[Some(me), Some(me)], &[me]);
        now.lanes.iter_mut().for_each(|lane| lane.fence = 9);
        let writes = plan_balance(&now, &spec(me, &[0], &[1]));
        assert_eq!(changes(&writes), [(0, 10, LaneChange::Take), (1, 10, LaneChange::Take)]);
    }

    #[test]
    fn a_node_that_leaves_takes_nothing_from_others() {
        let me = NodeId::new();
        let now = view(&[Some(me), None, Some(me)], &[me]);
        let writes = plan_balance(&now, &LaneBalanceSpec { joins: false, ..spec(me, &[], &[0]) });
        assert_eq!(changes(&writes), [(0, 7, LaneChange::Release), (2, 8, LaneChange::Take)]);
        assert_eq!(apply_writes(now, &spec(me, &[], &[0]), &writes).lanes[0].owner, None);
    }

    #[test]
    fn lanes_beyond_the_share_are_renewed_too() {
        let (me, other) = (NodeId::new(), NodeId::new());
        let mut now = view(&[Some(me), Some(me), None, Some(me)], &[me, other]);
        now.lanes.iter_mut().for_each(|lane| lane.expires_in = Duration::from_millis(400));
        let spec = spec(me, &[0], &[]);
        let writes = plan_balance(&now, &spec);
        let (renew, take) = (LaneChange::Renew, LaneChange::Take);
        assert_eq!(changes(&writes), [(0, 7, renew), (1, 8, take), (3, 8, take)]);
        let then = apply_writes(now, &spec, &writes);
        let mut ours = then.lanes.iter().filter(|lane| lane.owner == Some(me));
        assert!(ours.all(|lane| lane.expires_in == spec.lease_duration), "{then:?}");
    }
}
