//! A clock for one server, apart from the machine's: by libfaketime, which answers in the kernel's place.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::account::Account;
use super::folder;
use super::install::{ServerKind, Unavailable};

const FILE: &str = "clock";

/// Where distributions lay it, below a folder for the architecture or not.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The clock of a server that has one of its own. It stays as it is set through ends and starts of the server.
#[derive(Debug, Clone)]
pub struct ServerClock {
    library: PathBuf,
    folder: PathBuf,
    account: Account,
}

impl ServerClock {
    /// Looks whether this machine can give a server a clock.
    ///
    /// # Errors
    ///
    /// It has no libfaketime.
    pub fn check() -> Result<(), Unavailable> {
        library().map(drop)
    }

    /// One that is as the machine's, for the server of a folder.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] where this machine has no libfaketime.
    pub(super) fn new(folder: &Path, account: Account) -> Result<Self> {
        let library = library()?;
        let this = Self { library, folder: folder.to_owned(), account };
        this.set_ahead(0)?;
        Ok(this)
    }

    /// From now on it is so many milliseconds ahead of the machine's; behind it, where that is negative.
    ///
    /// # Errors
    ///
    /// Its file cannot be written.
    pub fn set_ahead(&self, millis: i64) -> Result<()> {
        // Moved there whole: a reader of half a file would see a third time.
        let text = format!("{:+.3}\n", millis as f64 / 1e3);
        let new = folder::write(&self.folder.join("clock.new"), &text, self.account)?;
        fs::rename(&new, self.folder.join(FILE)).context("set the server's clock")
    }

    /// What the server's environment is to hold. The file is read at every look, and not once a second: the processes of the server
    /// would differ meanwhile, as those of no real one do. Its time-outs stay right, because the monotonic clock is the kernel's.
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
        reason: "no libfaketime here, which gives it a clock; Debian has it in: apt-get install libfaketime".to_owned(),
    })
}
