//! The throw-away folder of one server.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::account::Account;

/// Removed with everything in it on drop.
#[derive(Debug)]
pub(super) struct Folder {
    folder: TempDir,
}

impl Folder {
    /// A new folder for `account` in `parent`, or in the system's folder for temporary files.
    pub(super) fn new(parent: Option<&Path>, server: &str, account: Account) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = tempfile::Builder::new()
            .prefix(&format!("outbox-{server}-"))
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(&parent)
            .with_context(|| format!("make a folder below {}", parent.display()))?;
        account.own(folder.path())?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The log file of the server's output.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// Writes a file that only `account` can read.
    pub(super) fn write(&self, name: &str, text: &str, account: Account) -> Result<PathBuf> {
        write(&self.folder.path().join(name), text, account)
    }
}

/// Writes a file that only `account` can read; returns its path.
pub(super) fn write(path: &Path, text: &str, account: Account) -> Result<PathBuf> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    account.own(path)?;
    Ok(path.to_owned())
}

/// A password that nobody on this machine can guess: with a known one any local user could run code as the server's user.
pub(super) fn random_password() -> Result<String> {
    Ok(random_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Sixteen bytes from the kernel.
pub(super) fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("read /dev/urandom")?;
    Ok(bytes)
}
