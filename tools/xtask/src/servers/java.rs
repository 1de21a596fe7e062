//! How Java runs, and Java programs against a server's jars: they stand for Java applications.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::account::Account;
use super::folder::Folder;
use super::install::{self, ServerKind};
use super::process::run;

/// How long a server in Java is to run, which decides whether its JVM optimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// For a test: it starts fast. With the optimising compiler, Kafka and RocketMQ take 1.7 times the processor to start.
    Seconds,
    /// For a measurement: each message is fast.
    Minutes,
}

/// A program that is itself optimised measures.
impl Default for Lifetime {
    fn default() -> Self {
        if cfg!(debug_assertions) { Self::Seconds } else { Self::Minutes }
    }
}

/// Options of every JVM. The first is the collector with the fewest threads; without the second it leaves a file outside our folder.
pub(super) fn options(lifetime: Lifetime) -> Vec<String> {
    let mut options = vec!["-XX:+UseSerialGC", "-XX:-UsePerfData"];
    if lifetime == Lifetime::Seconds {
        options.push("-XX:TieredStopAtLevel=1");
    }
    options.into_iter().map(str::to_owned).collect()
}

/// Compiles and runs one source file against the jars of `kind`, with `arguments`; returns what it printed.
///
/// # Errors
///
/// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no Java or cannot get the jars. Any other
/// error: the program does not compile or fails; the message has its output.
pub fn run_source(kind: ServerKind, source: &Path, arguments: &[&str]) -> Result<String> {
    let jars = match kind {
        ServerKind::Rocketmq => install::rocketmq_jars()?,
        _ => install::kafka_jars()?,
    };
    let account = Account::current();
    let folder = Folder::new(None, "java", account)?;
    let mut java = Command::new(install::java(kind)?);
    // It writes log files to its home folder.
    java.args(options(Lifetime::Seconds)).arg("-Xmx128m").arg(format!("-Duser.home={}", folder.path().display()));
    java.arg("-cp").arg(jars.join("*")).arg(source).args(arguments);
    account.apply(&mut java, folder.path());
    run(&mut java)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_is_measured_gets_the_optimising_compiler() {
        let restricted = |lifetime| options(lifetime).iter().any(|option| option.contains("TieredStopAtLevel"));
        assert!(restricted(Lifetime::Seconds));
        assert!(!restricted(Lifetime::Minutes));
    }
}
