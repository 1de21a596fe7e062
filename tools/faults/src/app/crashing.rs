//! Death at a step of the library's work.

use std::thread;

use anyhow::{Context, Result};
use rustix::process::{Signal, getpid, kill_process};

use super::{now_ms, print_report};
use crate::wire::Report;

/// Lets this process die at the next hit of one of these steps.
pub(super) fn crash_at(steps: &[(&'static str, &str)], step: usize) -> Result<()> {
    let (step, _) = *steps.get(step).context("a step of this process's work")?;
    let armed = fail::cfg_callback(step, || {
        // Whoever else kills it, for want of memory for example, does not count.
        print_report(&Report::Dies { at_ms: now_ms() });
        // Nothing more happens: also not what another thread could do before the signal reaches it.
        if kill_process(getpid(), Signal::KILL).is_ok() {
            loop {
                thread::park();
            }
        }
    });
    armed.map_err(|error| anyhow::anyhow!("arm {step}: {error}"))
}
