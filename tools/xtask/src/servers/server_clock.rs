//! A clock for one server, separate from the machine's: by libfaketime, which answers instead of the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::account::Account;
use super::folder;
use super::install::{ServerKind, Unavailable};

const FILE: &str = "clock";

/// Where distributions install it, with or without a folder for the architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The clock of a server with `own_clock`. It keeps its setting when the server stops and starts.
#[derive(Debug, Clone)]
pub struct ServerClock {
    library: PathBuf,
    folder: PathBuf,
    account: Account,
}

impl ServerClock {
    /// Checks whether this machine can give a server its own clock.
    ///
    /// # Errors
    ///
    /// It has no libfaketime.
    pub fn check() -> Result<(), Unavailable> {
        library().map(drop)
    }

    /// A clock with the machine's time, for the server of a folder.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if this machine has no libfaketime.
    pub(super) fn new(folder: &Path, account: Account) -> Result<Self> {
        let library = library()?;
        let this = Self { library, folder: folder.to_owned(), account };
        this.set_ahead(0)?;
        Ok(this)
    }

    /// Sets the clock this many milliseconds ahead of the machine's; behind it if negative.
    ///
    /// # Errors
    ///
    /// Its file cannot be written.
    pub fn set_ahead(&self, millis: i64) -> Result<()> {
        // Written elsewhere and moved: a reader of half a file would see a wrong time.
        let text = format!("{:+.3}\n", millis as f64 / 1e3);
        let new = folder::write(&self.folder.join("clock.new"), &text, self.account)?;
        fs::rename(&new, self.folder.join(FILE)).context("set the server's clock")
    }

    /// The server's environment variables. The file is read at every call, not once a second: otherwise the server's processes
    /// would differ meanwhile, unlike those of a real one. Its time-outs stay right, because the monotonic clock is the kernel's.
    pub(super) fn environment(&self) -> Vec<String> {
        vec![
            format!("LD_PRELOAD={}", self.library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.folder.join(FILE).display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
            "FAKETIME_DISABLE_SHM=1".to_owned(),
            "NO_FAKE_STAT=1".to_owned(),
        ]
    }
}

fn library() -> Result<PathBuf, Unavailable> {
    let roots = ["/usr/local/lib", "/usr/lib", "/usr/lib64"].map(PathBuf::from);
    let below = roots.iter().flat_map(fs::read_dir).flatten().flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = roots.iter().cloned().chain(below).collect();
    let found = folders.into_iter().map(|folder| folder.join(LIBRARY)).find(|path| path.is_file());
    found.ok_or_else(|| Unavailable {
        kind: ServerKind::Postgres,
        reason: "libfaketime is missing, which provides the clock; on Debian: apt-get install libfaketime".to_owned(),
    })
}
