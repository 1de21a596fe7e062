//! How Java runs, and Java programs against a server's jars: they stand for Java applications.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

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

/// A server's loaded classes, in a file beside its jars. With it Kafka takes half of the processor to start. RocketMQ would save a sixth:
/// too little for a second archive.
#[derive(Debug, Clone)]
pub(super) struct ClassArchive {
    file: PathBuf,
    is_there: bool,
}

impl ClassArchive {
    /// That of the jars in this folder. One that is older than they or than Java is as good as none.
    pub(super) fn of(jars: &Path, java: &Path) -> Self {
        let file = PathBuf::from(format!("{}.jsa", jars.display()));
        // When a file came here: its other time is that of its package.
        let changed = |path: &Path| fs::metadata(path).map(|found| found.ctime());
        let is_there = match (changed(&file), changed(jars), changed(java)) {
            (Ok(file), Ok(jars), Ok(java)) => file >= jars && file >= java,
            _ => false,
        };
        Self { file, is_there }
    }

    /// The option of a JVM that uses it, or that can write it.
    pub(super) fn option(&self) -> String {
        match self.is_there {
            true => format!("-XX:SharedArchiveFile={}", self.file.display()),
            false => "-XX:+RecordDynamicDumpInfo".to_owned(),
        }
    }

    /// Writes it from a server that has started with [`option`](Self::option), unless it is there.
    pub(super) fn write(&self, server: u32, folder: &Folder) -> Result<()> {
        if self.is_there {
            return Ok(());
        }
        let written = folder.path().join("classes.jsa");
        let account = Account::current();
        let mut dump = Command::new(install::find("jcmd").context("jcmd is missing")?);
        dump.arg(server.to_string()).arg("VM.cds").arg("dynamic_dump").arg(&written);
        account.apply(&mut dump, folder.path());
        run(&mut dump)?;
        // Moved into its place: several processes may write it at once.
        let partial = PathBuf::from(format!("{}.{server}", self.file.display()));
        fs::copy(&written, &partial).context("copy the archive of classes")?;
        fs::rename(&partial, &self.file).context("move the archive of classes")
    }
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
