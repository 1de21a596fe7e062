//! A process that dies between COMMIT and send: this program, started by itself and killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::shop::Shop;

const FLAG: &str = "--commit-and-hang";
const COMMITTED: &str = "committed";

/// In the parent: starts a process that commits `orders`, and kills it.
pub(crate) fn commit_in_child_and_kill(file: &Path, kafka: &str, orders: RangeInclusive<i64>) -> Result<(), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(FLAG)
        .args([file.as_os_str(), kafka.as_ref()])
        .args([orders.start().to_string(), orders.end().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().expect("piped above")).read_line(&mut said)?;
    child.kill()?;
    let status = child.wait()?;
    assert_eq!(said.trim_end(), COMMITTED, "the other process commits");
    assert_eq!(status.signal(), Some(9), "the other process dies by SIGKILL");
    Ok(())
}

/// What the child was asked to do; `None` in the parent.
pub(crate) struct Task {
    file: PathBuf,
    kafka: String,
    orders: RangeInclusive<i64>,
}

impl Task {
    pub(crate) fn from_arguments() -> Result<Option<Self>, Failure> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [flag, file, kafka, first, last] = &arguments[..] else { return Ok(None) };
        if flag != FLAG {
            return Ok(None);
        }
        Ok(Some(Self { file: file.into(), kafka: kafka.clone(), orders: first.parse()?..=last.parse()? }))
    }

    /// Commits the orders with a relay that gets no time to send: its runtime runs inside `block_on` only.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut shop = Shop::open(&self.file)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _relay = runtime.block_on(shop.relay(&self.file, &self.kafka)?.start())?;
        for order in self.orders {
            shop.place(order)?;
        }
        let mut out = std::io::stdout();
        writeln!(out, "{COMMITTED}")?;
        out.flush()?;
        // Until it is killed; or its parent has gone, and with it the other end.
        std::io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    }
}
