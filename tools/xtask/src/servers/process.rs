//! One server process: started so that it cannot outlive us, stopped by its own id.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::account::Account;
use super::folder::Folder;

/// How long a server may take to answer, or to end. Java is slow on a busy machine with two cores.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `program` as `account`; its output is appended to the folder's log.
    pub(super) fn spawn(program: &Path, args: &[String], account: Account, folder: &Folder) -> Result<Self> {
        let log = folder.log();
        let output = File::options().create(true).append(true).open(&log).context("open the server's log")?;
        // setpriv itself runs as the target user: the kernel clears the death signal when a process changes its user.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(args);
        account.apply(&mut command, folder.path());
        // In its own process group, so that a Ctrl-C does not reach the server before we stop it in order.
        command.process_group(0).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = spawn_for_life(command).with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Polls `ready` until it returns true.
    ///
    /// # Errors
    ///
    /// The server ended, or the deadline passed; the message ends with the end of the server's log.
    pub(super) fn wait_ready(&mut self, mut ready: impl FnMut() -> bool) -> Result<()> {
        let child = &mut self.child;
        let waited = until(DEADLINE, || {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended with {status}");
            }
            Ok(ready())
        });
        waited.with_context(|| format!("its log ends with:\n{}", tail(&self.log)))
    }

    /// SIGKILL to the server and its children at once, like a power cut; returns when all are gone.
    ///
    /// # Errors
    ///
    /// Also if it had ended by itself, which a kill would hide.
    pub(super) fn kill9(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("check the server")? {
            bail!("the server ended by itself with {status}; its log ends with:\n{}", tail(&self.log));
        }
        // Stopped first, or it could start a child between listing the children and the kill.
        let family = stop_and_list(self.id())?;
        self.child.kill().context("kill the server")?;
        family.iter().for_each(|&id| signal(id, Signal::KILL));
        self.child.wait().context("reap the server")?;
        until(DEADLINE, || Ok(family.iter().all(|&id| !lives(id)))).context("children of the server outlive SIGKILL")
    }

    /// Sends the signal `how` and waits for the orderly end.
    pub(super) fn stop(mut self, how: Signal) -> Result<()> {
        signal(self.id(), how);
        let child = &mut self.child;
        let ended = until(DEADLINE, || Ok(child.try_wait()?.is_some()));
        if ended.is_err() {
            let log = tail(&self.log);
            self.kill9()?;
            bail!("the server did not stop and was killed; its log ends with:\n{log}");
        }
        Ok(())
    }
}

/// Runs a server's command line tool to its end.
///
/// # Errors
///
/// It cannot be started or fails; the message has its output.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{program} ended with {}:\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

/// Polls `done` until it returns true or fails, for at most `deadline`.
#[expect(clippy::disallowed_methods, reason = "other processes are watched by polling, with a deadline")]
pub(super) fn until(deadline: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + deadline;
    while !done()? {
        ensure!(Instant::now() < end, "timed out after {deadline:?}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Spawns from one thread that lives as long as this process: the kernel sends the death signal when the *thread* that spawned
/// ends, and each test's thread ends with the test.
fn spawn_for_life(command: Command) -> Result<Child> {
    type Order = (Command, mpsc::SyncSender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in inbox {
                // If the caller is gone, it has panicked; the child then ends with this process.
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = mpsc::sync_channel(1);
    spawner.send((command, reply)).ok().context("the spawning thread ended")?;
    Ok(answer.recv().context("the spawning thread ended")??)
}

/// Sends a signal. A process that is gone already needs none.
pub(super) fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Parent and state of a process, from the text of its `/proc/<id>/stat`: `id (name) state parent ..`.
fn parent_and_state(stat: &str) -> Option<(u32, char)> {
    let (_, rest) = stat.rsplit_once(')')?; // the name may hold blanks and parentheses
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

pub(super) fn children_of(parent: u32) -> Vec<u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stat = |id: &u32| parent_and_state(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?);
    ids.filter(|id| stat(id).is_some_and(|(of, _)| of == parent)).collect()
}

/// The state of a process, as `/proc` has it: `T` if it is stopped; `None` if it is gone.
pub(super) fn state_of(id: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    parent_and_state(&stat).map(|(_, state)| state)
}

/// Stops a process, and lists its children once it stands still: the signal alone is not enough, since until then it may start another
/// one. A process that has ended starts none.
pub(super) fn stop_and_list(id: u32) -> Result<Vec<u32>> {
    signal(id, Signal::STOP);
    let starts_none = || Ok(matches!(state_of(id), None | Some('T' | 'Z' | 'X')));
    until(DEADLINE, starts_none).context("stop a server")?;
    Ok(children_of(id))
}

/// Whether a process runs. A zombie waits for its new parent and holds nothing any more.
fn lives(id: u32) -> bool {
    state_of(id).is_some_and(|state| state != 'Z')
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::parent_and_state;

    #[test]
    fn names_of_processes_do_not_mislead() {
        assert_eq!(parent_and_state("7 (a) S 3 (b)) S 42 1 1 0"), Some((42, 'S')));
        assert_eq!(parent_and_state("7 (postgres) Z 1 7 7"), Some((1, 'Z')));
        assert_eq!(parent_and_state(""), None);
    }
}
