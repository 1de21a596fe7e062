//! How a test gets a server: the address of the shared instance, or a recorded skip.
//!
//! `cargo xtask test` and `cargo xtask servers` start the shared instances and pass on by variables: the address
//! ([`ServerKind::variable`]), or why there is none (the same name with `_MISSING`), and the file for the skips
//! (`OUTBOX_TEST_SKIPS`).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use crate::servers::{ServerKind, Unavailable};

/// The variable with the path of the file of skips. Each line has test, missing program and reason, separated by tabs.
pub const SKIPS: &str = "OUTBOX_TEST_SKIPS";

/// The address of the shared instance of `kind`: a URL, for Kafka `host:port`, for RocketMQ that of its name server.
///
/// `None` if there is none; the skip is then recorded and printed, and the test should return. Call it on the test's own thread,
/// whose name is the test's.
///
/// # Panics
///
/// There is none, and `CI=true`.
pub fn shared_or_skip(kind: ServerKind) -> Option<String> {
    if let Ok(address) = std::env::var(kind.variable()) {
        return Some(address);
    }
    let reason = std::env::var(missing_variable(kind));
    skip_without(
        kind.name(),
        &reason.unwrap_or_else(|_| "not started: run the tests with `cargo xtask test`".to_owned()),
    );
    None
}

/// A server of the test's own, from the result of its `start`.
///
/// `None` if this machine has no such server; the skip is then recorded and printed, and the test should return.
///
/// # Panics
///
/// The server is installed and does not start; or there is none, and `CI=true`.
pub fn own_or_skip<S>(started: anyhow::Result<S>) -> Option<S> {
    let error = match started {
        Ok(server) => return Some(server),
        Err(error) => error,
    };
    match error.downcast_ref::<Unavailable>() {
        Some(unavailable) => skip_without(unavailable.kind.name(), &unavailable.reason),
        None => panic!("{error:?}"),
    }
    None
}

/// The variable that says why `kind` was not started.
pub fn missing_variable(kind: ServerKind) -> String {
    format!("{}_MISSING", kind.variable())
}

/// Records that the test on this thread is skipped, because a program is missing; the test should return.
///
/// # Panics
///
/// `CI=true`.
pub fn skip_without(program: &str, reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a thread without a name");
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    let file = std::env::var_os(SKIPS).map(PathBuf::from);
    record(test, program, reason, in_ci, file.as_deref());
}

fn record(test: &str, missing: &str, reason: &str, in_ci: bool, file: Option<&Path>) {
    assert!(!in_ci, "{test} needs {missing}, and CI skips nothing: {reason}");
    eprintln!("skipped {test}: no {missing}: {reason}");
    let Some(file) = file else { return };
    let line = format!("{test}\t{missing}\t{}\n", reason.replace(['\n', '\t'], " "));
    // One write each: the tests of one run append concurrently.
    let opened = File::options().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("record a skip in {}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_one_line() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        record("a::b", "kafka", "no\tjava\nhere", false, Some(file.path()));
        record("a::c", "postgres", "x", false, Some(file.path()));
        let text = std::fs::read_to_string(file.path()).expect("read");
        assert_eq!(text, "a::b\tkafka\tno java here\na::c\tpostgres\tx\n");
    }

    #[test]
    #[should_panic(expected = "CI skips nothing")]
    fn ci_skips_nothing() {
        record("a::b", "kafka", "no java", true, None);
    }

    #[test]
    fn a_server_that_does_not_start_is_no_skip() {
        let broken = || own_or_skip::<()>(Err(anyhow::anyhow!("port taken")));
        assert!(std::panic::catch_unwind(broken).is_err());
        assert_eq!(own_or_skip(Ok(1)), Some(1));
    }
}
