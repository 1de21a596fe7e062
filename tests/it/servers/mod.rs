//! The servers that other tests use keep confirmed writes through `kill -9`, and end with their owner.

mod kafka;
mod mariadb;
mod orphan;
mod postgres;
mod rocketmq;

use std::path::Path;
use std::time::{Duration, Instant};

/// Whether a process has ended, perhaps as a zombie.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

fn is_refused(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// Polls until a value is there.
fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::yield_now();
    }
}
