//! The processes of a run, by their ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::part::{Config, Role};
use super::{CONFIG, Places};
use crate::Failure;

/// The shops.
const SHOPS: usize = 2;

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

    pub(super) fn signal(&self, role: Role, how: Signal) -> Result<(), Failure> {
        match self.running.get(&role).and_then(Child::id) {
            Some(id) => signal(id, how),
            None => Ok(()),
        }
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

    /// Ends every part in order.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        for role in self.roles() {
            self.signal(role, Signal::TERM)?;
        }
        for (role, child) in &mut self.running {
            let status = child.wait().await?;
            if !status.success() {
                return Err(format!("{role:?} ended with {status}: see its log").into());
            }
        }
        Ok(())
    }
}

pub(super) fn signal(id: u32, how: Signal) -> Result<(), Failure> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("a process has an id")?;
    Ok(kill_process(pid, how)?)
}

fn free_addresses() -> Result<Vec<SocketAddr>, Failure> {
    let listeners = (0..SHOPS).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<Vec<_>, _>>()?;
    Ok(listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}
