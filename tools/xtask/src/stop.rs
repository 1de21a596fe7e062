//! Ctrl-C and SIGTERM: running work ends in order, so that servers stop and folders are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;

/// Whether somebody asked us to stop.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// From now on the first signal sets the flag. A second one ends this process at once, and the kernel then ends its servers.
    ///
    /// # Errors
    ///
    /// The signals cannot be handled.
    pub fn on_signals() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // In this order: at the first signal the flag is still unset.
            flag::register_conditional_shutdown(*signal, 1, Arc::clone(&flag)).context("watch for signals")?;
            flag::register(*signal, Arc::clone(&flag)).context("watch for signals")?;
        }
        Ok(Self { flag })
    }

    /// Whether a signal came.
    pub fn requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}
