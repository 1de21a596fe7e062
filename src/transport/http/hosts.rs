//! The known hosts, in bounded number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::host::Host;
use super::url::Origin;
use crate::limits::{HTTP_EVICTION_CANDIDATES_MAX, HTTP_HOSTS_MAX};

#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: HashMap<Origin, Arc<Host>>,
    /// Each host once, oldest first. A host in use that could not be evicted moved to the end.
    oldest: VecDeque<Origin>,
}

impl Hosts {
    /// Returns a host, known or new. A new one evicts another if there are many.
    pub(super) fn get(&mut self, origin: &Origin, now: Instant) -> Arc<Host> {
        if let Some(host) = self.known.get(origin) {
            return Arc::clone(host);
        }
        if self.known.len() >= HTTP_HOSTS_MAX {
            self.evict_one(now);
        }
        let host = Host::new(Arc::clone(origin));
        self.known.insert(Arc::clone(origin), Arc::clone(&host));
        self.oldest.push_back(Arc::clone(origin));
        host
    }

    /// Evicts one of the oldest hosts that is unused: one whose pause is over if there is one, else any. Evicting a
    /// host that is down only means that it is tried early. It checks a few hosts, not all, so that messages with a URL
    /// each do not scan every host each time. Hosts that it skipped move to the end, so that the next call checks
    /// others.
    fn evict_one(&mut self, now: Instant) {
        let candidates = self.oldest.len().min(HTTP_EVICTION_CANDIDATES_MAX);
        let (mut is_over, mut is_in_pause) = (None, None);
        for (place, origin) in self.oldest.iter().take(candidates).enumerate() {
            let Some(host) = self.known.get(origin).filter(|host| is_unused(host)) else { continue };
            if host.is_pause_over(now) {
                is_over = Some(place);
                break;
            }
            is_in_pause = is_in_pause.or(Some(place));
        }
        match is_over.or(is_in_pause).and_then(|place| self.oldest.remove(place)) {
            Some(origin) => drop(self.known.remove(&origin)),
            None => self.oldest.rotate_left(candidates),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.known.values()
    }
}

/// Under the lock of the hosts, nobody else can get a reference to this host. Whoever already has one counts: workers,
/// messages in flight, senders and the watcher.
fn is_unused(host: &Arc<Host>) -> bool {
    Arc::strong_count(host) == 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transport::http::failure::{FailureKind, Scope};

    fn get(hosts: &mut Hosts, name: usize, now: Instant) -> Arc<Host> {
        hosts.get(&format!("http://{name}.example").into(), now)
    }

    fn is_known(hosts: &Hosts, name: usize) -> bool {
        hosts.known.contains_key(format!("http://{name}.example").as_str())
    }

    /// Thousands of names that do not resolve are each down, and in a pause.
    #[tokio::test(start_paused = true)]
    async fn hosts_that_are_down_are_bounded_in_number() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let used = get(&mut hosts, 0, now);
        for name in 1..2 * HTTP_HOSTS_MAX {
            get(&mut hosts, name, now).failed(FailureKind::Unreachable, Scope::Message, None, now);
        }
        assert_eq!((hosts.known.len(), hosts.oldest.len()), (HTTP_HOSTS_MAX, HTTP_HOSTS_MAX));
        assert!(Arc::ptr_eq(&used, &get(&mut hosts, 0, now)), "a host in use stays");
        assert!(!is_known(&hosts, 1) && is_known(&hosts, HTTP_HOSTS_MAX + 1), "the oldest went first");
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_without_a_pause_are_evicted_first() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let minute = Some(Duration::from_secs(60));
        for name in 0..HTTP_HOSTS_MAX {
            let pause = if name == 3 { None } else { minute };
            get(&mut hosts, name, now).failed(FailureKind::Paused, Scope::Message, pause, now);
        }
        get(&mut hosts, HTTP_HOSTS_MAX, now);
        assert!(is_known(&hosts, 0) && !is_known(&hosts, 3));
        get(&mut hosts, HTTP_HOSTS_MAX + 1, now);
        assert!(!is_known(&hosts, 0), "if every pause still runs, the oldest is dropped");
    }

    /// However many are in use, the unused ones are found.
    #[tokio::test(start_paused = true)]
    async fn hosts_in_use_are_not_evicted() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let in_use: Vec<_> = (0..HTTP_HOSTS_MAX / 2).map(|name| get(&mut hosts, name, now)).collect();
        (0..HTTP_HOSTS_MAX).for_each(|name| drop(get(&mut hosts, HTTP_HOSTS_MAX + name, now)));
        // Each call that checks only used hosts grows the list by one.
        let passed_by = in_use.len().div_ceil(HTTP_EVICTION_CANDIDATES_MAX);
        assert!(hosts.known.len() <= HTTP_HOSTS_MAX + passed_by, "{}", hosts.known.len());
        assert!((0..in_use.len()).all(|name| is_known(&hosts, name)));
    }
}
