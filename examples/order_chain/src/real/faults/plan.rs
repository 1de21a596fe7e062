//! When which fault happens, by a seed alone.

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, Victim, pause};

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    /// Since the begin of the load.
    pub(super) at: Duration,
    pub(super) fault: Fault,
    /// How long a part is away or stopped.
    pub(super) pause: Duration,
}

/// So many faults a minute, each at a random moment of its share of the time: in turn each kind of the deck once, and each kind of a part once
/// more. A server takes up to a minute to start again on a busy machine; with more of them the run would mostly see servers that start.
pub(super) fn plan(seed: u64, lasts: Duration, per_minute: u32, deck: &[Fault]) -> Vec<Planned> {
    let (mut rng, mut cards) = (Rng::with_seed(seed), Vec::new());
    let mut is_of_all = false;
    let share = Duration::from_secs(60) / per_minute;
    let mut planned = Vec::new();
    let mut begins = Duration::ZERO;
    while begins + share <= lasts {
        if cards.is_empty() {
            is_of_all = !is_of_all;
            let is_dealt = |fault: &&Fault| is_of_all || matches!(fault.0, Victim::Part(_));
            cards = deck.iter().filter(is_dealt).copied().collect();
            rng.shuffle(&mut cards);
        }
        let at = begins + share.mul_f64(rng.f64());
        planned.extend(cards.pop().map(|fault| Planned { at, fault, pause: pause(&mut rng) }));
        begins += share;
    }
    planned
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::How;
    use super::*;
    use crate::real::part::Role;
    use crate::real::servers::Server;

    fn deck() -> Vec<Fault> {
        let parts = [Role::Stock, Role::Close].map(Victim::Part);
        let servers = [Server::Postgres, Server::RocketMq, Server::NameServer].map(Victim::Server);
        parts
            .into_iter()
            .chain(servers)
            .flat_map(|victim| [How::Killed, How::Stopped].map(|how| Fault(victim, how)))
            .collect()
    }

    #[test]
    fn the_seed_decides_and_the_density_is_kept() {
        let twelve_minutes = Duration::from_secs(720);
        let planned = plan(7, twelve_minutes, 25, &deck());
        assert_eq!(planned, plan(7, twelve_minutes, 25, &deck()));
        assert_ne!(planned, plan(8, twelve_minutes, 25, &deck()));
        assert_eq!(planned.len(), 300);
        assert!(planned.is_sorted_by_key(|planned| planned.at));
        assert!(planned.iter().all(|planned| planned.at < twelve_minutes));
    }

    #[test]
    fn each_fault_of_a_part_is_planned_twice_for_one_of_a_server() {
        // Two of each of four, and one of each of six: a hundred times fourteen.
        let mut counts: BTreeMap<Fault, u32> = BTreeMap::new();
        for planned in plan(1, Duration::from_secs(60 * 100), 14, &deck()) {
            *counts.entry(planned.fault).or_default() += 1;
        }
        for fault in deck() {
            let times = if matches!(fault.0, Victim::Part(_)) { 200 } else { 100 };
            assert_eq!(counts[&fault], times, "{fault}");
        }
    }

    #[test]
    fn each_kind_comes_before_any_comes_again() {
        for seed in 0..50 {
            let planned = plan(seed, Duration::from_secs(60), 14, &deck());
            let faults: Vec<Fault> = planned.iter().map(|planned| planned.fault).collect();
            let (all, of_parts) = faults.split_at(deck().len());
            assert!(deck().iter().all(|fault| all.contains(fault)), "{seed}: {all:?}");
            assert_eq!(of_parts.len(), 4);
            let parts = deck().into_iter().filter(|fault| matches!(fault.0, Victim::Part(_)));
            assert!(parts.into_iter().all(|fault| of_parts.contains(&fault)), "{seed}: {of_parts:?}");
        }
    }

    #[test]
    fn a_load_that_is_too_short_has_no_fault() {
        assert_eq!(plan(1, Duration::from_secs(2), 20, &deck()), []);
    }
}
