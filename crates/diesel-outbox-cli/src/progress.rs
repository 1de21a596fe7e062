//! Shows how far long work is, if somebody watches.

use std::time::Duration;

use diesel_outbox::admin::BoundedCount;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the time that is shown goes on.
const TICK: Duration = Duration::from_millis(200);

/// A bar on standard error. It is not drawn unless that is a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// For so many messages; more may come if the count was bounded.
    pub(crate) fn of(what: &'static str, total: BoundedCount) -> Self {
        Self::new(what, Some(total.count as u64), "{msg} {wide_bar} {pos} of {len}, {per_sec}, {eta} left")
    }

    /// For work of which nobody knows yet how much it is.
    pub(crate) fn open(what: &'static str) -> Self {
        Self::new(what, None, "{msg} {pos}, {per_sec}, {elapsed}")
    }

    fn new(what: &'static str, total: Option<u64>, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        // The template is fixed; if it were wrong, the bar of the library would do.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(what);
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// So many of something are done.
    pub(crate) fn set_of(&self, what: &'static str, done: u64) {
        self.0.set_message(what);
        self.0.set_position(done);
    }

    /// So many are done.
    pub(crate) fn set(&self, done: usize) {
        let done = done as u64;
        if self.0.length().is_some_and(|length| done > length) {
            self.0.set_length(done);
        }
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
