//! A server that stands still.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::process::{children_of, signal, state_of, stop_and_list};

/// A server that SIGSTOP has stopped, with its children: PostgreSQL has a process for each session. All go on when this is dropped, and
/// also if our process ends before that.
#[derive(Debug)]
pub struct Stopped {
    root: u32,
    children: Vec<u32>,
    watcher: Option<Child>,
}

impl Stopped {
    /// Stops the process `root` and its children.
    ///
    /// # Errors
    ///
    /// It has ended, or does not stop. Nothing is left stopped.
    pub fn of(root: u32) -> Result<Self> {
        // Made first: an error drops it, and so lets all go on.
        let mut this = Self { root, children: Vec::new(), watcher: None };
        this.children = stop_and_list(root)?;
        ensure!(state_of(root) == Some('T'), "the server has ended");
        // If we end before this, the kernel kills the server, and its children run.
        this.watcher = Some(watcher(root, &this.children)?);
        this.children.iter().for_each(|&id| signal(id, Signal::STOP));
        Ok(this)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let others = self.children.iter().copied().chain(children_of(self.root));
        others.chain([self.root]).for_each(|id| signal(id, Signal::CONT));
        if let Some(watcher) = &mut self.watcher {
            drop(watcher.stdin.take());
            // It has nothing left to do. Drop cannot return an error.
            let _ = watcher.wait();
        }
    }
}

/// A process that lets all go on when our end of its pipe is closed, as it is if we are killed. The kernel then kills the server, but not
/// its children: those that stand still would do so for ever, since they do not notice the server's end.
fn watcher(root: u32, children: &[u32]) -> Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -s CONT \"$@\"", "sh"]).arg(root.to_string());
    command.args(children.iter().map(u32::to_string));
    // In its own process group, so that a Ctrl-C does not end it with us. Some of the processes may have ended, which it would print.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("start what lets a stopped server go on")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::process::{DEADLINE, until};

    /// A process with a child.
    struct Family(Child);

    impl Family {
        fn start() -> Self {
            let this = Self(Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().expect("a process"));
            until(DEADLINE, || Ok(children_of(this.0.id()).len() == 1)).expect("it has a child");
            this
        }

        fn ids(&self) -> Vec<u32> {
            children_of(self.0.id()).into_iter().chain([self.0.id()]).collect()
        }

        fn wait_until_stopped(&self, is_so: bool) {
            let ids = self.ids();
            assert_eq!(ids.len(), 2, "both live");
            until(DEADLINE, || Ok(ids.iter().all(|&id| (state_of(id) == Some('T')) == is_so))).expect("a state");
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            self.ids().into_iter().for_each(|id| signal(id, Signal::KILL));
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_server_stands_still_with_its_children_until_the_drop() {
        let family = Family::start();
        let stopped = Stopped::of(family.0.id()).expect("it stops");
        family.wait_until_stopped(true);
        drop(stopped);
        family.wait_until_stopped(false);
    }

    /// What happens when our process is killed: nothing is dropped, and the kernel closes the pipe.
    #[test]
    fn it_goes_on_when_whoever_stopped_it_is_gone() {
        let family = Family::start();
        let mut stopped = Stopped::of(family.0.id()).expect("it stops");
        family.wait_until_stopped(true);
        drop(stopped.watcher.as_mut().expect("a watcher").stdin.take());
        family.wait_until_stopped(false);
        drop(stopped);
    }

    #[test]
    fn a_server_that_has_ended_cannot_be_stopped() {
        let mut ended = Command::new("true").spawn().expect("a process");
        ended.wait().expect("it ends");
        let error = Stopped::of(ended.id()).expect_err("it is gone");
        assert!(format!("{error:#}").contains("the server has ended"), "{error:#}");
    }
}
