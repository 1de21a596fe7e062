//! Free loopback ports.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Below the kernel's range for outgoing connections (32768 and up): a port from that range could be taken by any
/// client while a killed server is about to start again on it.
const RANGE: std::ops::Range<u16> = 15_000..30_000;

/// A port nobody listens on now, and that was never handed out by this process.
pub(super) fn free_port() -> Result<u16> {
    static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.get_or_insert_default();
    for attempt in 0..1_000_u32 {
        // Random, not counted up: several test runs share one machine.
        let offset = RandomState::new().hash_one(attempt) % RANGE.len() as u64;
        let port = RANGE.start + u16::try_from(offset)?;
        if !taken.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            taken.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port between {} and {}", RANGE.start, RANGE.end)
}
