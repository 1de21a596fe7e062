//! The processes of a run, by their ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout_at};

use super::part::{Config, Role};
use super::{CONFIG, Places};
use crate::Failure;

/// The shops.
const SHOPS: usize = 2;
/// How long all parts together may take to end, of which each gives its work a quarter.
const END_MAX: Duration = Duration::from_secs(60);

/// The processes; they are killed when this is dropped.
#[derive(Debug)]
pub(super) struct Fleet {
    places: Places,
    running: BTreeMap<Role, Child>,
    log: File,
}

impl Fleet {
    /// Starts the shops, whose relays create the topics. Call it on the driver's first thread: the kernel kills a child when the thread that started it ends.
    pub(super) fn start(places: Places, log: &Path) -> Result<Self, Failure> {
        let mut fleet = Self { places, running: BTreeMap::new(), log: File::create(log)? };
        for address in free_addresses()? {
            fleet.start_part(Role::Shop(address))?;
        }
        Ok(fleet)
    }

    /// Starts the consumers. One of a topic that is not there would look for it again only minutes later.
    pub(super) fn start_consumers(&mut self) -> Result<(), Failure> {
        let consumers = [Role::Close, Role::Cache, Role::Stock, Role::Coupon, Role::Points];
        consumers.into_iter().try_for_each(|role| self.start_part(role))
    }

    pub(super) fn start_part(&mut self, role: Role) -> Result<(), Failure> {
        let config = Config { role, places: self.places.clone() };
        let mut command = Command::new(std::env::current_exe()?);
        command.env(CONFIG, serde_json::to_string(&config)?).kill_on_drop(true);
        // Its own process group keeps a Ctrl-C for the driver from it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log.try_clone()?);
        self.running.insert(role, command.spawn()?);
        Ok(())
    }

    pub(super) fn roles(&self) -> Vec<Role> {
        self.running.keys().copied().collect()
    }

    pub(super) fn shops(&self) -> Vec<SocketAddr> {
        let address = |role: &Role| if let Role::Shop(address) = role { Some(*address) } else { None };
        self.running.keys().filter_map(address).collect()
    }

    /// Takes a part out, for whoever kills it: it is not revived.
    pub(super) fn take(&mut self, role: Role) -> Option<Child> {
        self.running.remove(&role)
    }

    /// The processes, by their parts' names.
    pub(super) fn ids(&self) -> Vec<(String, u32)> {
        let name = |role: &Role| if let Role::Shop(_) = role { "shops".to_owned() } else { format!("{role:?}") };
        self.running.iter().filter_map(|(role, child)| Some((name(role), child.id()?))).collect()
    }

    /// Returns whether there was a running process to signal.
    pub(super) fn signal(&mut self, role: Role, how: Signal) -> Result<bool, Failure> {
        self.running.get_mut(&role).map_or(Ok(false), |child| signal_child(child, how))
    }

    /// Starts a part again that has ended by itself: at its start a server may have been away. Returns which.
    pub(super) fn revive(&mut self) -> Result<Vec<Role>, Failure> {
        let mut ended = Vec::new();
        for (role, child) in &mut self.running {
            if child.try_wait()?.is_some() {
                ended.push(*role);
            }
        }
        for role in &ended {
            self.start_part(*role)?;
        }
        Ok(ended)
    }

    /// Ends every part in order. Those that have not ended in time are killed.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        for role in self.roles() {
            self.signal(role, Signal::TERM)?;
        }
        let deadline = Instant::now() + END_MAX;
        for (role, child) in &mut self.running {
            ended(&format!("{role:?}"), child, deadline).await?;
        }
        Ok(())
    }
}

async fn ended(name: &str, child: &mut Child, deadline: Instant) -> Result<(), Failure> {
    match timeout_at(deadline, child.wait()).await {
        Ok(status) => match status? {
            status if status.success() => Ok(()),
            status => Err(format!("{name} ended with {status}: see its log").into()),
        },
        Err(_) => Err(format!("{name} did not end within {END_MAX:?} of SIGTERM: see its log").into()),
    }
}

/// Of one that has ended the system may still take a signal, which does nothing.
fn signal_child(child: &mut Child, how: Signal) -> Result<bool, Failure> {
    match (child.try_wait()?, child.id()) {
        (None, Some(id)) => signal(id, how).map(|()| true),
        _ => Ok(false),
    }
}

/// `kill -9`. Returns whether it was running.
pub(super) async fn kill(mut child: Child) -> Result<bool, Failure> {
    let is_hit = signal_child(&mut child, Signal::KILL)?;
    child.wait().await?;
    Ok(is_hit)
}

fn signal(id: u32, how: Signal) -> Result<(), Failure> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("a process has an id")?;
    Ok(kill_process(pid, how)?)
}

fn free_addresses() -> Result<Vec<SocketAddr>, Failure> {
    let listeners = (0..SHOPS).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<Vec<_>, _>>()?;
    Ok(listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(program: &str, argument: &str) -> Child {
        Command::new(program).arg(argument).kill_on_drop(true).spawn().expect("it starts")
    }

    #[tokio::test]
    async fn a_process_that_has_ended_cannot_be_hit() {
        let mut ended = process("true", "");
        ended.wait().await.expect("it ends");
        assert!(!signal_child(&mut ended, Signal::STOP).expect("no error"));
        assert!(!kill(ended).await.expect("no error"));
        let mut running = process("sleep", "600");
        assert!(signal_child(&mut running, Signal::STOP).expect("no error"));
        assert!(kill(running).await.expect("no error"));
    }

    #[tokio::test]
    async fn a_part_that_does_not_end_is_an_error() {
        let mut running = process("sleep", "600");
        let error = super::ended("the part", &mut running, Instant::now()).await.expect_err("it runs");
        assert!(error.to_string().contains("the part did not end within"), "{error}");
        assert!(kill(running).await.expect("no error"));
        let (mut good, mut bad) = (process("true", ""), process("false", ""));
        let deadline = Instant::now() + END_MAX;
        super::ended("good", &mut good, deadline).await.expect("it ends");
        super::ended("bad", &mut bad, deadline).await.expect_err("it fails");
    }
}
