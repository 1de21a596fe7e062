//! Who reads what: each member asks the brokers who the others are, and counts its own share.
//!
//! Nobody hands queues out. For a moment two members may read one queue, and the database decides. **Rejected:** the brokers' locks of
//! queues. They keep the queues of a process that was killed for a minute, and expire while a process is stopped, so the database would have
//! to decide all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use super::calls::Member;
use super::queues::{self, Queue};
use super::reader::Event;
use crate::limits::{ROCKETMQ_HEARTBEAT, ROCKETMQ_MEMBERS_INTERVAL, ROCKETMQ_QUEUES_INTERVAL};
use crate::transport::Line;

/// The share of this member, until the loop takes it.
#[derive(Default)]
pub(super) struct Share(Mutex<Option<BTreeSet<Queue>>>);

impl Share {
    pub(super) fn take(&self) -> Option<BTreeSet<Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, share: BTreeSet<Queue>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
    }
}

/// Watches the group until it is aborted.
pub(super) async fn watch(member: Arc<Member>, share: Arc<Share>, events: UnboundedSender<Event>) {
    let mut watch = Watch {
        line: member.requests.line(),
        member,
        events,
        topics: BTreeMap::new(),
        routes_at: Instant::now(),
        greets_at: Instant::now(),
        last: None,
        given: BTreeSet::new(),
    };
    while !watch.events.is_closed() {
        match watch.look().await {
            Ok(Some(found)) => share.set(found),
            Ok(None) => {}
            Err(trouble) => watch.report(trouble),
        }
        sleep(ROCKETMQ_MEMBERS_INTERVAL).await;
    }
}

struct Watch {
    member: Arc<Member>,
    line: Line,
    events: UnboundedSender<Event>,
    topics: BTreeMap<Arc<str>, BTreeSet<Queue>>,
    routes_at: Instant,
    greets_at: Instant,
    /// What the last look found.
    last: Option<BTreeSet<Queue>>,
    /// What the loop was given.
    given: BTreeSet<Queue>,
}

impl Watch {
    fn report(&self, trouble: String) {
        // If the loop has ended, nobody cares.
        drop(self.events.send(Event::Trouble(trouble)));
    }

    /// This member's share, if the loop has another one.
    async fn look(&mut self) -> Result<Option<BTreeSet<Queue>>, String> {
        if self.routes_at <= Instant::now() {
            self.read_routes().await;
            self.routes_at = Instant::now() + ROCKETMQ_QUEUES_INTERVAL;
        }
        if self.greets_at <= Instant::now() {
            self.greet().await?;
        }
        let members = self.members().await?;
        if !members.contains(&self.member.name) {
            // The brokers have forgotten everybody, as they do when they start. This member keeps what it has.
            self.greets_at = Instant::now();
            self.last = None;
            return Ok(None);
        }
        let found = queues::share(&self.topics, &members, &self.member.name);
        let share = queues::change(&self.given, &found, self.last.as_ref() == Some(&found));
        self.last = Some(found);
        if share == self.given {
            return Ok(None);
        }
        self.given.clone_from(&share);
        Ok(Some(share))
    }

    /// Learns where the topics' queues are. What it cannot learn stays as it was: a name server that has just started knows no topic yet.
    async fn read_routes(&mut self) {
        for topic in self.member.topics.clone() {
            let wire_topic = self.member.requests.wire_name(&topic);
            match self.line.route(&wire_topic).await {
                Ok(Some(route)) => {
                    self.topics.insert(Arc::clone(&topic), queues::of(&topic, &route));
                    let mut known = self.member.addresses();
                    if route.addresses.iter().any(|(broker, address)| known.get(broker) != Some(address)) {
                        // Whoever is at a new address has not heard of this member.
                        self.greets_at = Instant::now();
                    }
                    known.extend(route.addresses);
                }
                Ok(None) => self.report(format!("the name servers know no topic {wire_topic}")),
                Err(trouble) => {
                    // The next topic would wait for the same time-out.
                    self.report(trouble);
                    return;
                }
            }
        }
    }

    /// Greets every broker. It is enough that one answers.
    async fn greet(&mut self) -> Result<(), String> {
        let (mut answered, mut failed) = (false, None);
        for address in self.brokers() {
            match self.member.greet(&self.line, &address).await {
                Ok(()) => answered = true,
                Err(trouble) => failed = Some(trouble),
            }
        }
        match failed.filter(|_| !answered) {
            Some(trouble) => Err(trouble),
            None => {
                self.greets_at = Instant::now() + ROCKETMQ_HEARTBEAT;
                Ok(())
            }
        }
    }

    /// The members, as the first broker by name says that knows this one: so all members ask the same one.
    async fn members(&self) -> Result<BTreeSet<String>, String> {
        let (mut found, mut failed) = (None, None);
        for address in self.brokers() {
            match self.member.members(&self.line, &address).await {
                Ok(members) if members.contains(&self.member.name) => return Ok(members),
                Ok(members) => found = Some(members),
                Err(trouble) => failed = Some(trouble),
            }
        }
        match (found, failed) {
            (None, Some(trouble)) => Err(trouble),
            (found, _) => Ok(found.unwrap_or_default()),
        }
    }

    /// The addresses of the topics' brokers, in the order of their names.
    fn brokers(&self) -> Vec<String> {
        let brokers: BTreeSet<&Arc<str>> = self.topics.values().flatten().map(|queue| &queue.broker).collect();
        let addresses = self.member.addresses();
        brokers.into_iter().filter_map(|broker| addresses.get(broker).cloned()).collect()
    }
}
