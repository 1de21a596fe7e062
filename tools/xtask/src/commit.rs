//! The checked-out commit, as Git reports it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::commands::workspace;

/// The output of `git`, without the newline.
///
/// # Errors
///
/// It cannot be started, or fails.
pub(crate) fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(workspace()).output().context("start git")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The newest release before this commit; `None` before the first.
pub(crate) fn last_release() -> Option<String> {
    git(&["describe", "--tags", "--abbrev=0", "--match", "v*"]).ok()
}

/// A fresh clone of the commit, without local changes, build results and untracked files.
#[derive(Debug)]
pub(crate) struct FreshClone {
    folder: TempDir,
}

impl FreshClone {
    /// Creates the clone.
    ///
    /// # Errors
    ///
    /// This is no repository, or there is no space.
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("outbox-clone-").tempdir().context("make a folder for a clone")?;
        let this = Self { folder };
        git(&["clone", "--quiet", ".", &this.path().to_string_lossy()])?;
        Ok(this)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}
