//! Java programs against a server's jars: they stand for Java applications.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::account::Account;
use super::folder::Folder;
use super::install::{self, ServerKind};
use super::process::run;

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
    java.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData"])
        .arg(format!("-Duser.home={}", folder.path().display()));
    java.arg("-cp").arg(jars.join("*")).arg(source).args(arguments);
    account.apply(&mut java, folder.path());
    run(&mut java)
}
