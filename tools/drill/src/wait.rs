//! Waits for a state, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use xtask::stop::Stop;

/// How often a state is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// Polls `done` until it returns true or fails. Returns how long that took.
///
/// # Errors
///
/// The error of `done`, the deadline passed, or a signal asked us to stop.
#[expect(clippy::disallowed_methods, reason = "other processes are watched by polling, with a deadline")]
pub(crate) fn until(
    stop: &Stop,
    deadline: Duration,
    what: &str,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let began = Instant::now();
    while !done()? {
        if stop.requested() {
            bail!("stopped by a signal");
        }
        ensure!(began.elapsed() < deadline, "{what}: not within {deadline:?}");
        thread::sleep(INTERVAL);
    }
    Ok(began.elapsed())
}
