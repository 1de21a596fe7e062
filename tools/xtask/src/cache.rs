//! Files that a machine fetches once: in Cargo's target folder, outside of the sources, and kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// Where `name` is, or would be.
#[must_use]
pub fn place(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"));
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), |folder| workspace.join(folder));
    target.join(name)
}

/// The folder `name`; if it does not exist, `fill` fetches it.
///
/// # Errors
///
/// The error of `fill`, or the folder cannot be created.
pub fn get(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let parent = folder.parent().context("a folder of the cache has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
    // Filled next to its place and then moved, so that an interrupted fetch does not look finished.
    let partial = tempfile::tempdir_in(parent)?;
    let filled = partial.path().join("filled");
    fs::create_dir(&filled)?;
    fill(&filled).with_context(|| format!("fetch {name}"))?;
    match fs::rename(&filled, &folder) {
        Err(_) if folder.is_dir() => {} // another process was faster
        moved => moved.with_context(|| format!("move {name} into the cache"))?,
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_fetch_leaves_nothing_and_a_whole_one_stays() {
        let name = format!("tmp/cache-{}", std::process::id());
        get(&name, |_| anyhow::bail!("no network")).unwrap_err();
        assert!(!place(&name).exists());
        let put = |folder: &Path| Ok(fs::write(folder.join("a"), "x")?);
        let folder = get(&name, put).expect("a folder");
        assert_eq!(get(&name, |_| anyhow::bail!("a second fetch")).expect("the same"), folder);
        assert_eq!(fs::read_to_string(folder.join("a")).expect("a file"), "x");
        fs::remove_dir_all(folder).expect("remove");
    }
}
