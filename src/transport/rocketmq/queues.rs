use std::sync::Arc;

use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;

/// The permission bit of a queue that accepts writes.
const WRITE: u32 = 2;
/// The number of the master among the brokers of one name.
const MASTER: u64 = 0;

/// One queue of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) broker: Arc<str>,
    pub(super) number: i32,
}

/// A topic's writable queues, in the order that every RocketMQ client uses: so a key is in the same queue whoever sends
/// it.
pub(super) fn of(route: &TopicRouteData) -> Vec<Queue> {
    if let Some(fixed) = route.order_topic_conf.as_deref().filter(|conf| !conf.is_empty()) {
        return of_ordered(fixed);
    }
    let has_master = |name: &str| {
        let mut brokers = route.broker_datas.iter();
        brokers.any(|broker| broker.broker_name().as_str() == name && broker.broker_addrs().contains_key(&MASTER))
    };
    let mut brokers: Vec<_> = route.queue_datas.iter().collect();
    brokers.retain(|queues| queues.perm() & WRITE != 0 && has_master(queues.broker_name()));
    brokers.sort_by(|one, other| one.broker_name().as_str().cmp(other.broker_name().as_str()));
    let each = brokers.into_iter().map(|queues| (queues.broker_name().as_str(), queues.write_queue_nums()));
    each.flat_map(|(broker, count)| numbered(broker, count)).collect()
}

/// Parses `broker-a:4;broker-b:4`. A cluster keeps this for a topic whose queues must not change when a broker leaves.
fn of_ordered(fixed: &str) -> Vec<Queue> {
    let each = fixed.split(';').filter_map(|broker| broker.rsplit_once(':'));
    each.flat_map(|(broker, count)| numbered(broker, count.parse().unwrap_or(0))).collect()
}

fn numbered(broker: &str, count: u32) -> impl Iterator<Item = Queue> + use<> {
    let broker: Arc<str> = broker.into();
    (0..i32::try_from(count).unwrap_or(i32::MAX)).map(move |number| Queue { broker: Arc::clone(&broker), number })
}

/// The index of a key's queue among `count`, as `SelectMessageQueueByHash` of the Java client computes it for a string.
pub(super) fn index_of(key: &str, count: usize) -> usize {
    let hash = key.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let count = i32::try_from(count).unwrap_or(i32::MAX).max(1);
    usize::try_from((hash % count).unsigned_abs()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rocketmq_protocol::protocol::route::route_data_view::{BrokerData, QueueData};

    use super::*;

    #[test]
    fn keys_are_hashed_as_by_the_java_client() {
        // String.hashCode gives: 0, 97, -1739336029, 954925063, the smallest number there is, and 1129459.
        let keys = ["", "a", "The quick brown fox", "message", "polygenelubricants", "订单"];
        assert_eq!(keys.map(|key| index_of(key, 4)), [0, 1, 1, 3, 0, 3]);
        assert_eq!(keys.map(|key| index_of(key, 7)), [0, 6, 4, 1, 2, 2]);
    }

    #[test]
    fn queues_are_counted_broker_by_broker() {
        let broker = |name: &str, id: u64| {
            let addresses = [(id, "127.0.0.1:1".into())].into_iter().collect();
            BrokerData::new("cluster".into(), name.into(), addresses, None)
        };
        let mut route = TopicRouteData::new();
        route.broker_datas = vec![broker("b", 0), broker("a", 0), broker("replica", 1), broker("closed", 0)];
        let queues = |name: &str, perm| QueueData::new(name.into(), 2, 2, perm, 0);
        route.queue_datas = vec![queues("b", 6), queues("replica", 6), queues("a", 6), queues("closed", 4)];
        let names = |route: &TopicRouteData| -> Vec<String> {
            of(route).iter().map(|queue| format!("{}{}", queue.broker, queue.number)).collect()
        };
        assert_eq!(names(&route), ["a0", "a1", "b0", "b1"]);
        route.order_topic_conf = Some("b:1;a:2".into());
        assert_eq!(names(&route), ["b0", "a0", "a1"]);
    }
}
