//! The servers that all tests of one run share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use xtask::servers::{
    Chromium, Kafka, Mariadb, Postgres, Rocketmq, ServerKind, Unavailable, install, kafka, mariadb, postgres, rocketmq,
};
use xtask::stop::Stop;
use xtask::test_servers;

use crate::report::Skip;

/// The started servers. Dropping this ends them and removes every folder of the run.
#[derive(Debug)]
pub(crate) struct SharedServers {
    /// Held only for their `Drop`.
    _postgres: Option<Postgres>,
    _mariadb: Option<Mariadb>,
    _kafka: Option<Kafka>,
    _rocketmq: Option<Rocketmq>,
    _chromium: Option<Chromium>,
    addresses: Vec<(ServerKind, String)>,
    missing: Vec<(ServerKind, String)>,
    failures: Vec<ServerKind>,
    binaries: Option<PathBuf>,
    /// Last, so that it is dropped after the servers that use it.
    folder: TempDir,
}

impl SharedServers {
    /// Starts those of `servers` that this machine has.
    pub(crate) fn start(servers: &[ServerKind]) -> Result<Self> {
        Self::start_with(servers, None)
    }

    /// The same with the PostgreSQL whose programs are in `binaries`; tests also start that one.
    pub(crate) fn start_with(servers: &[ServerKind], binaries: Option<&Path>) -> Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("outbox-run-").permissions(Permissions::from_mode(0o755)).tempdir();
        let folder = folder.context("make a folder for this run")?;
        let place = Some(folder.path().to_owned());
        let mut this = Self {
            _postgres: None,
            _mariadb: None,
            _kafka: None,
            _rocketmq: None,
            _chromium: None,
            addresses: Vec::new(),
            missing: Vec::new(),
            failures: Vec::new(),
            binaries: binaries.map(Path::to_owned),
            folder,
        };
        if !servers.is_empty() {
            let names: Vec<_> = servers.iter().map(|kind| kind.name()).collect();
            println!("starting {}", names.join(", "));
        }
        let (postgres, mariadb, kafka, rocketmq) = thread::scope(|scope| {
            let wanted = |kind| servers.contains(&kind);
            let binaries = binaries.map(Path::to_owned);
            let options = postgres::Options { folder: place.clone(), binaries, ..Default::default() };
            let postgres = wanted(ServerKind::Postgres).then(|| scope.spawn(move || Postgres::start(&options)));
            let options = mariadb::Options { folder: place.clone(), ..Default::default() };
            let mariadb = wanted(ServerKind::Mariadb).then(|| scope.spawn(move || Mariadb::start(&options)));
            let options = kafka::Options { folder: place.clone(), ..Default::default() };
            let kafka = wanted(ServerKind::Kafka).then(|| scope.spawn(move || Kafka::start(&options)));
            let options = rocketmq::Options { folder: place.clone(), ..Default::default() };
            let rocketmq = wanted(ServerKind::Rocketmq).then(|| scope.spawn(move || Rocketmq::start(&options)));
            (postgres.map(join), mariadb.map(join), kafka.map(join), rocketmq.map(join))
        });
        this._postgres = this.note(ServerKind::Postgres, postgres, Postgres::url);
        this._mariadb = this.note(ServerKind::Mariadb, mariadb, Mariadb::url);
        this._kafka = this.note(ServerKind::Kafka, kafka, Kafka::bootstrap);
        this._rocketmq = this.note(ServerKind::Rocketmq, rocketmq, Rocketmq::name_server);
        // It starts in a moment, so nothing waits beside it.
        let chromium = servers.contains(&ServerKind::Chromium).then(Chromium::start);
        this._chromium = this.note(ServerKind::Chromium, chromium, Chromium::url);
        Ok(this)
    }

    fn note<S>(&mut self, kind: ServerKind, started: Option<Result<S>>, address: fn(&S) -> String) -> Option<S> {
        match started {
            None => self.missing.push((kind, "left out of this run".to_owned())),
            Some(Ok(server)) => {
                self.addresses.push((kind, address(&server)));
                return Some(server);
            }
            Some(Err(error)) => {
                println!("{kind}: {error:#}");
                match error.downcast_ref::<Unavailable>() {
                    Some(unavailable) => self.missing.push((kind, unavailable.reason.clone())),
                    None => {
                        self.missing.push((kind, "it is installed but did not start".to_owned()));
                        self.failures.push(kind);
                    }
                }
            }
        }
        None
    }

    /// The servers that are installed but did not start.
    pub(crate) fn failures(&self) -> &[ServerKind] {
        &self.failures
    }

    /// Why `kind` does not run; `None` if it does.
    pub(crate) fn missing(&self, kind: ServerKind) -> Option<&str> {
        self.missing.iter().find(|(of, _)| *of == kind).map(|(_, reason)| reason.as_str())
    }

    /// Sets the variables that tell `command` where the servers are, and where to create folders: those are removed with the run,
    /// even if a test is killed. Tests record their skips in the file `skips`.
    pub(crate) fn set_env(&self, command: &mut Command, skips: &str) {
        command.env("TMPDIR", self.folder.path()).env(test_servers::SKIPS, self.folder.path().join(skips));
        command.envs(self.binaries.iter().map(|folder| (install::POSTGRES_BINARIES, folder)));
        for (kind, address) in &self.addresses {
            command.env(kind.variable(), address);
        }
        for (kind, reason) in &self.missing {
            command.env(test_servers::missing_variable(*kind), reason).env_remove(kind.variable());
        }
    }

    /// The tests that have recorded a skip in the file `skips` since the last call.
    pub(crate) fn take_skips(&self, skips: &str) -> Result<Vec<Skip>> {
        let file = self.folder.path().join(skips);
        if !file.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&file).context("read the recorded skips")?;
        fs::remove_file(&file).context("remove the recorded skips")?;
        let mut skips: Vec<Skip> = Vec::new();
        for line in text.lines() {
            let (test, reason) = line.split_once('\t').context("a recorded skip has three fields")?;
            if skips.iter().all(|skip| skip.name != test) {
                skips.push(Skip { name: test.to_owned(), reason: format!("no {}", reason.replace('\t', ": ")) });
            }
        }
        Ok(skips)
    }

    /// Prints the variables for a shell and waits for a signal.
    #[expect(clippy::disallowed_methods, reason = "a signal is waited for, and there is nothing else to do")]
    pub(crate) fn wait_for_stop(&self, stop: &Stop) {
        for (kind, address) in &self.addresses {
            println!("export {}='{address}'", kind.variable());
        }
        println!("# until Ctrl-C");
        while !stop.requested() {
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn join<S>(thread: thread::ScopedJoinHandle<'_, Result<S>>) -> Result<S> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
