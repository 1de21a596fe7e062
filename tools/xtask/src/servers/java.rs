//! How Java runs, and Java programs against a server's jars: they stand for Java applications.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::account::Account;
use super::folder::Folder;
use super::install::{self, ServerKind};
use super::process::run;

/// Options of every JVM. The first is the collector with the fewest threads; without the second it leaves a file outside our folder.
pub(super) fn options() -> Vec<String> {
    let mut options = vec!["-XX:+UseSerialGC", "-XX:-UsePerfData"];
    // A test's server lives for seconds. With the optimising compiler, Kafka and RocketMQ take 1.7 times the processor to start. Benches
    // are built without debug assertions: their servers live for minutes, and are to be fast.
    if cfg!(debug_assertions) {
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
    java.args(options()).arg("-Xmx128m").arg(format!("-Duser.home={}", folder.path().display()));
    java.arg("-cp").arg(jars.join("*")).arg(source).args(arguments);
    account.apply(&mut java, folder.path());
    run(&mut java)
}
