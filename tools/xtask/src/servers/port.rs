//! Free loopback ports.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Below the kernel's range for outgoing connections (32768 and up): a port from that range could be taken by any
/// client while a killed server is about to start again on it.
const RANGE: std::ops::Range<u16> = 15_000..30_000;

/// How often a server is started, if it finds a port taken.
const STARTS_MAX: usize = 3;

/// A port that nobody listens on, and that this process has not given out before.
pub(super) fn free_port() -> Result<u16> {
    free_port_with(0)
}

/// Such a port, where the port `below` lower is free, too.
pub(super) fn free_port_with(below: u16) -> Result<u16> {
    static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.get_or_insert_default();
    for attempt in 0..1_000_u32 {
        // Random, not counted up: several test runs share one machine.
        let offset = RandomState::new().hash_one(attempt) % RANGE.len() as u64;
        let port = RANGE.start + u16::try_from(offset)?;
        let both = HashSet::from([port, port - below]);
        if taken.is_disjoint(&both) && both.iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            taken.extend(both);
            return Ok(port);
        }
    }
    bail!("no free port between {} and {}", RANGE.start, RANGE.end)
}

/// Starts a server, and again on other ports if somebody took one first: a port cannot be reserved for a program before it starts.
pub(super) fn on_free_ports<S>(mut start: impl FnMut() -> Result<S>) -> Result<S> {
    for _ in 1..STARTS_MAX {
        match start() {
            Err(error) if format!("{error:#}").contains("Address already in use") => {}
            started => return started,
        }
    }
    start()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_pair_of_ports_is_handed_out_once() {
        let ports: Vec<u16> = (0..500).map(|_| free_port_with(2).expect("a pair")).collect();
        let both: HashSet<u16> = ports.iter().flat_map(|port| [*port, port - 2]).collect();
        assert_eq!(both.len(), 1_000);
        assert!((0..500).all(|_| !both.contains(&free_port().expect("a port"))));
    }

    #[test]
    fn a_server_whose_port_was_taken_has_another_try_and_no_other_failure_has() {
        for (says, tries) in [("FATAL: Address already in use", STARTS_MAX), ("no such file", 1)] {
            let mut started = 0;
            let failed = on_free_ports::<()>(|| {
                started += 1;
                Err(anyhow!("{says}").context("it does not start"))
            });
            assert!(failed.is_err() && started == tries, "{says}: {started}");
        }
        let mut failures = vec![anyhow!("Address already in use")];
        assert_eq!(on_free_ports(|| failures.pop().map_or(Ok(7), Err)).expect("it starts"), 7);
    }
}
