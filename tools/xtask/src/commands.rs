//! Runs Cargo and other programs with visible output.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process_group};
use xtask::stop::Stop;

/// How long a program may take to end once asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The root of the workspace: of the one that Cargo runs us in. Two clones that share a target folder share this program.
pub(crate) fn workspace() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&package).ancestors().nth(2).unwrap_or(Path::new("/")).to_owned()
    });
    &ROOT
}

/// The Cargo that started us, run in the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(workspace());
    // Cargo sets these for us. The build of `ring` watches them: it and thirty crates above it would be built again after each
    // command of Cargo by hand.
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_str().is_some_and(|name| OF_A_PACKAGE.iter().any(|of| name.starts_with(of))))
    {
        command.env_remove(name);
    }
    command
}

/// What `cargo metadata` says of the workspace and all dependencies. Those of other systems are not on this machine.
#[cfg(test)]
pub(crate) fn metadata() -> serde_json::Value {
    let platform = "--filter-platform=x86_64-unknown-linux-gnu";
    let metadata = cargo(&["metadata", "--format-version=1", "--all-features", "--locked", platform]).output();
    let metadata = metadata.expect("run cargo");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    serde_json::from_slice(&metadata.stdout).expect("metadata")
}

const OF_A_PACKAGE: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_PRIMARY_PACKAGE"];

/// Runs `command` to its end and shows each line of its output as it arrives; returns whether it succeeded.
///
/// # Errors
///
/// It cannot be started, or a signal asked us to stop: then it has ended too.
pub(crate) fn run(command: &mut Command, stop: &Stop) -> Result<bool> {
    watch(command, stop, |_| Ok(()))
}

/// Like [`run`]; `see` also gets each line, and `None` from time to time while there is none.
///
/// # Errors
///
/// Also the error of `see`: then the command has ended too.
pub(crate) fn watch(command: &mut Command, stop: &Stop, see: impl FnMut(Option<&str>) -> Result<()>) -> Result<bool> {
    println!("{}", command_line(command));
    spawn_and_follow(command, Stdio::inherit(), stop, |line| println!("{line}"), see)
}

/// Runs `command` to its end, with `errors` as its standard error; see [`follow`].
fn spawn_and_follow(
    command: &mut Command,
    errors: Stdio,
    stop: &Stop,
    show: impl FnMut(&str),
    see: impl FnMut(Option<&str>) -> Result<()>,
) -> Result<bool> {
    // In its own process group, so that stopping it also reaches its compilers and tests.
    let spawned = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = spawned.with_context(|| format!("start {}", program(command)))?;
    let lines = lines(child.stdout.take().context("the output is piped")?, child.stderr.take());
    follow(&mut child, &lines, stop, show, see)
}

/// Passes each line to `show`, and those of the standard output to `see`, until the child has ended; returns whether it succeeded.
fn follow(
    child: &mut Child,
    lines: &Receiver<Line>,
    stop: &Stop,
    mut show: impl FnMut(&str),
    mut see: impl FnMut(Option<&str>) -> Result<()>,
) -> Result<bool> {
    let mut ended_at = None;
    loop {
        let seen = match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(Line { text, is_error }) => {
                show(&text);
                if is_error { Ok(()) } else { see(Some(&text)) }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
            Err(RecvTimeoutError::Timeout) if stop.requested() => Err(anyhow!("stopped by a signal")),
            Err(RecvTimeoutError::Timeout) => match child.try_wait()? {
                Some(status) if ended_at.get_or_insert_with(Instant::now).elapsed() > GRACE => {
                    // A process that it started and left behind holds its output open.
                    let _ = kill_process_group(group(child)?, Signal::KILL);
                    return Ok(status.success());
                }
                _ => see(None),
            },
        };
        if let Err(error) = seen {
            end_group(child)?;
            return Err(error);
        }
    }
}

/// A line of a command's output.
struct Line {
    text: String,
    /// Whether it is from the standard error.
    is_error: bool,
}

/// The lines of both streams, as they arrive.
fn lines(output: ChildStdout, errors: Option<ChildStderr>) -> Receiver<Line> {
    let (sender, lines) = mpsc::channel();
    if let Some(errors) = errors {
        read_lines(errors, true, sender.clone());
    }
    read_lines(output, false, sender);
    lines
}

fn read_lines(stream: impl Read + Send + 'static, is_error: bool, sender: Sender<Line>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(Line { text, is_error }).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Like [`watch`], and prints the output only when the command has ended: what two commands print at once is not to be mixed.
///
/// # Errors
///
/// As [`watch`].
pub(crate) fn watch_beside(
    command: &mut Command,
    stop: &Stop,
    see: impl FnMut(Option<&str>) -> Result<()>,
) -> Result<bool> {
    println!("{} (beside)", command_line(command));
    let mut output = String::new();
    let succeeded = capture(command, stop, &mut output, see);
    println!("{output}");
    succeeded
}

/// Like [`watch`], and shows nothing; only idle processors work on it. `output` gets its command line and all it prints, errors included.
///
/// # Errors
///
/// As [`watch`].
pub(crate) fn run_in_background(
    command: &Command,
    stop: &Stop,
    output: &mut String,
    see: impl FnMut(Option<&str>) -> Result<()>,
) -> Result<bool> {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    capture(&mut nice, stop, output, see)
}

/// Runs `command` to its end. Its command line and all it prints go to `output`, the lines of its standard output also to `see`.
fn capture(
    command: &mut Command,
    stop: &Stop,
    output: &mut String,
    see: impl FnMut(Option<&str>) -> Result<()>,
) -> Result<bool> {
    output.push_str(&command_line(command));
    spawn_and_follow(command, Stdio::piped(), stop, |line| output.extend(["\n", line]), see)
}

fn program(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn command_line(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    format!("\n$ {} {}", program(command), arguments.join(" "))
}

#[expect(clippy::disallowed_methods, reason = "another process is watched by polling, with a deadline")]
fn end_group(child: &mut Child) -> Result<()> {
    let group = group(child)?;
    kill_process_group(group, Signal::TERM)?;
    let end = Instant::now() + GRACE;
    while child.try_wait()?.is_none() && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    // Whatever is left of the group; it may be gone already.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    Ok(())
}

fn group(child: &Child) -> Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process has an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn only_lines_of_the_standard_output_are_seen_and_all_are_kept() {
        let (mut seen, mut output) = (Vec::new(), String::new());
        let stop = Stop::on_signals().expect("signals");
        let succeeded = capture(&mut shell("echo one; echo two >&2; echo three; exit 1"), &stop, &mut output, |line| {
            seen.extend(line.map(str::to_owned));
            Ok(())
        });
        assert!(!succeeded.expect("it runs"));
        assert_eq!(seen, ["one", "three"]);
        assert!(["one", "two", "three"].iter().all(|line| output.lines().any(|printed| printed == *line)), "{output}");
    }

    #[test]
    fn a_process_left_behind_keeps_nobody_waiting() {
        let (start, mut output) = (Instant::now(), String::new());
        let stop = Stop::on_signals().expect("signals");
        let succeeded = capture(&mut shell("sleep 100 & echo $!"), &stop, &mut output, |_| Ok(()));
        assert!(succeeded.expect("it runs") && start.elapsed() < Duration::from_secs(60));
    }
}
