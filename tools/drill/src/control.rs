//! The commands of the runbooks that are about services: the drill's own services obey them.
//!
//! In the path of a block, `systemctl` and `kubectl` start this program, which passes on its arguments to the drill.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Weak;
use std::thread;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::services;
use crate::world::World;

/// The variable with the address of the drill. With it, this program is such a command.
pub(crate) const ADDRESS: &str = "OUTBOX_DRILL_CONTROL";

/// The commands whose arguments go to the drill.
const COMMANDS: [&str; 2] = ["systemctl", "kubectl"];

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    is_done: bool,
    text: String,
}

/// Writes the commands into a folder for the path: those about services, and Kafka's tools, which are real.
pub(crate) fn write_commands(folder: &Path, kafka_tools: &[(&str, Vec<String>)]) -> Result<()> {
    let drill = std::env::current_exe().context("find this program")?;
    let write = |name: &str, command: String| {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\nexec {command} \"$@\"\n")).with_context(|| format!("write {name}"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755)).context("make a command executable")
    };
    for name in COMMANDS {
        write(name, format!("'{}' {name}", drill.display()))?;
    }
    for (name, command) in kafka_tools {
        write(name, command.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "))?;
    }
    Ok(())
}

/// Obeys the commands until the drill has ended.
pub(crate) fn serve(listener: TcpListener, world: Weak<World>) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Some(world) = world.upgrade() else { return };
            if let Err(error) = answer(stream, &world) {
                println!("    a command was not answered: {error:#}");
            }
        }
    });
}

fn answer(mut stream: TcpStream, world: &World) -> Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let words: Vec<String> = serde_json::from_str(&line)?;
    let reply = match services::obey(world, &words) {
        Ok(text) => Reply { is_done: true, text },
        Err(error) => Reply { is_done: false, text: format!("{error:#}") },
    };
    writeln!(stream, "{}", serde_json::to_string(&reply)?)?;
    Ok(())
}

/// Passes on a command, and prints the reply.
pub(crate) fn ask(address: &str, words: Vec<String>) -> Result<()> {
    let mut stream = TcpStream::connect(address).context("reach the drill")?;
    writeln!(stream, "{}", serde_json::to_string(&words)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let reply: Reply = serde_json::from_str(&line).context("read the drill's reply")?;
    if !reply.is_done {
        bail!("{}: {}", words.join(" "), reply.text);
    }
    println!("{}", reply.text);
    Ok(())
}
