//! Queues, and which member of a group reads which.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::consumer::record::PartitionId;
use crate::transport::Route;

/// A queue of a topic, in the order in which every RocketMQ client hands queues out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Queue {
    /// Without the namespace.
    pub(super) topic: Arc<str>,
    pub(super) broker: Arc<str>,
    pub(super) number: u32,
}

impl Queue {
    /// It is named by its broker and its number there: numbers in a row over all brokers would change when one is added.
    pub(super) fn id(&self) -> PartitionId {
        PartitionId { topic: Arc::clone(&self.topic), name: format!("{}/{}", self.broker, self.number).into() }
    }

    pub(super) fn from_id(id: &PartitionId) -> Self {
        let parts = id.name.rsplit_once('/').and_then(|(broker, number)| Some((broker, number.parse().ok()?)));
        let Some((broker, number)) = parts else { unreachable!("made from a queue") };
        Self { topic: Arc::clone(&id.topic), broker: broker.into(), number }
    }
}

/// The queues of a topic.
pub(super) fn of(topic: &Arc<str>, route: &Route) -> BTreeSet<Queue> {
    let each = route.queues.iter().flat_map(|(broker, count)| (0..*count).map(move |number| (broker, number)));
    each.map(|(broker, number)| Queue { topic: Arc::clone(topic), broker: Arc::clone(broker), number }).collect()
}

/// A member's share of each topic, as Java's `AllocateMessageQueueAveragely` counts it: then two members that know the same agree, whatever
/// their clients. A member that is not in the list has none.
pub(super) fn share(
    topics: &BTreeMap<Arc<str>, BTreeSet<Queue>>,
    members: &BTreeSet<String>,
    member: &str,
) -> BTreeSet<Queue> {
    let Some(index) = members.iter().position(|of| of == member) else { return BTreeSet::new() };
    let of_topic = |queues: &BTreeSet<Queue>| {
        let (each, rest) = (queues.len() / members.len(), queues.len() % members.len());
        let (begin, count) = (index * each + index.min(rest), each + usize::from(index < rest));
        queues.iter().skip(begin).take(count).cloned().collect::<Vec<_>>()
    };
    topics.values().flat_map(of_topic).collect()
}

/// What a member that has some queues reads from now on. It gives back at once, and takes what it found twice in a row: so the last owner
/// is mostly done by then, and a broker that has just started, and knows some of the members at first, gives no queue to two of them.
pub(super) fn change(given: &BTreeSet<Queue>, found: &BTreeSet<Queue>, is_found_twice: bool) -> BTreeSet<Queue> {
    if is_found_twice { found.clone() } else { given.intersection(found).cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, brokers: &[(&str, u32)]) -> BTreeSet<Queue> {
        let queues = brokers.iter().map(|(broker, count)| ((*broker).into(), *count)).collect();
        of(&name.into(), &Route { queues, addresses: BTreeMap::new() })
    }

    #[test]
    fn a_queue_keeps_its_name_when_a_broker_is_added() {
        let names = |brokers: &[(&str, u32)]| -> Vec<String> {
            topic("orders", brokers).iter().map(|queue| queue.id().to_string()).collect()
        };
        let before = names(&[("b", 2)]);
        assert_eq!(before, ["orders/b/0", "orders/b/1"]);
        let after = names(&[("a/x", 1), ("b", 2)]);
        assert!(before.iter().all(|name| after.contains(name)), "{after:?}");
        for queue in topic("orders", &[("a/x", 1), ("b", 11)]) {
            assert_eq!(Queue::from_id(&queue.id()), queue);
        }
    }

    #[test]
    fn members_share_each_queue_once_and_evenly() {
        let topics =
            [("orders", 7), ("bills", 2)].map(|(name, count)| (name.into(), topic(name, &[("a", 1), ("b", count)])));
        let topics: BTreeMap<Arc<str>, BTreeSet<Queue>> = topics.into_iter().collect();
        let all: BTreeSet<Queue> = topics.values().flatten().cloned().collect();
        for count in 1..12 {
            let members: BTreeSet<String> = (0..count).map(|number| format!("m{number:02}")).collect();
            let shares: Vec<_> = members.iter().map(|member| share(&topics, &members, member)).collect();
            let given: usize = shares.iter().map(BTreeSet::len).sum();
            assert_eq!(
                (shares.iter().flatten().cloned().collect::<BTreeSet<_>>(), given),
                (all.clone(), all.len()),
                "{count} members"
            );
            for name in topics.keys() {
                let of_topic = |share: &BTreeSet<Queue>| share.iter().filter(|queue| queue.topic == *name).count();
                let (least, most) = (shares.iter().map(of_topic).min(), shares.iter().map(of_topic).max());
                assert!(most <= least.map(|least| least + 1), "{count} members: {least:?} to {most:?}");
            }
            assert!(share(&topics, &members, "another").is_empty());
        }
    }

    #[test]
    fn a_member_gives_back_before_another_one_takes() {
        let (all, none) = (topic("orders", &[("a", 2)]), BTreeSet::new());
        let half = topic("orders", &[("a", 1)]);
        assert_eq!(change(&none, &all, false), none);
        assert_eq!(change(&none, &all, true), all);
        assert_eq!(change(&all, &half, false), half);
        assert_eq!(change(&half, &all, false), half);
    }
}
