//! Another process: this test binary once more, told by its environment what to do.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::collector::DEADLINE;

const ARGUMENT: &str = "OUTBOX_OTEL_TEST_CHILD";

/// The argument of this process, if it is a child; `None` where the test runs by itself, which then does nothing.
pub(crate) fn argument() -> Option<String> {
    std::env::var(ARGUMENT).ok()
}

/// Runs a test of this binary in another process, and waits for its end.
pub(crate) fn run(test: &str, argument: &str) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", test, "--nocapture"])
        .env(ARGUMENT, argument)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            return status;
        }
        if Instant::now() >= end {
            child.kill().expect("it is killed");
            panic!("{test} still runs after {DEADLINE:?}");
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
