//! The hosts that are known, in bounded number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::host::Host;
use super::url::Origin;
use crate::limits::{HTTP_EVICTION_CANDIDATES_MAX, HTTP_HOSTS_MAX};

#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: HashMap<Origin, Arc<Host>>,
    /// Each of them once, the one that has been known for longest first, but for those that could not be forgotten when they were.
    oldest: VecDeque<Origin>,
}

impl Hosts {
    /// A host, known or new. A new one takes the place of another where there are many.
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

    /// Forgets the oldest that nobody uses and nothing waits for, of a few of the oldest: one whose pause is over if there is
    /// one, any other if not. Of one that is down no more is lost than that it is tried early. A few and not all, so that a URL
    /// for each message does not cost a walk through all hosts for each message; those passed by go to the end, so that the
    /// next time others are looked at.
    fn evict_one(&mut self, now: Instant) {
        let looks = self.oldest.len().min(HTTP_EVICTION_CANDIDATES_MAX);
        let (mut is_over, mut is_in_pause) = (None, None);
        for (place, origin) in self.oldest.iter().take(looks).enumerate() {
            let Some(host) = self.known.get(origin).filter(|host| is_unused(host)) else { continue };
            if host.is_pause_over(now) {
                is_over = Some(place);
                break;
            }
            is_in_pause = is_in_pause.or(Some(place));
        }
        match is_over.or(is_in_pause).and_then(|place| self.oldest.remove(place)) {
            Some(origin) => drop(self.known.remove(&origin)),
            None => self.oldest.rotate_left(looks),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.known.values()
    }
}

/// Under the lock of the hosts nobody else comes by it, and whoever has it already counts: workers, turns, whoever brings a
/// message, and the look after what waits.
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

    /// Each of thousands of names that lead nowhere is down, and in a pause.
    #[tokio::test(start_paused = true)]
    async fn hosts_that_are_down_are_bounded_in_number() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let used = get(&mut hosts, 0, now);
        for name in 1..2 * HTTP_HOSTS_MAX {
            get(&mut hosts, name, now).failed(FailureKind::Unreachable, Scope::Message, None, now);
        }
        assert_eq!((hosts.known.len(), hosts.oldest.len()), (HTTP_HOSTS_MAX, HTTP_HOSTS_MAX));
        assert!(Arc::ptr_eq(&used, &get(&mut hosts, 0, now)), "it is in use");
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
        assert!(!is_known(&hosts, 0), "where none is over, the oldest");
    }

    /// However many are in use, the others are found.
    #[tokio::test(start_paused = true)]
    async fn hosts_in_use_are_not_evicted() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let in_use: Vec<_> = (0..HTTP_HOSTS_MAX / 2).map(|name| get(&mut hosts, name, now)).collect();
        (0..HTTP_HOSTS_MAX).for_each(|name| drop(get(&mut hosts, HTTP_HOSTS_MAX + name, now)));
        // Each time that only used ones are looked at costs one place.
        let passed_by = in_use.len().div_ceil(HTTP_EVICTION_CANDIDATES_MAX);
        assert!(hosts.known.len() <= HTTP_HOSTS_MAX + passed_by, "{}", hosts.known.len());
        assert!((0..in_use.len()).all(|name| is_known(&hosts, name)));
    }
}
