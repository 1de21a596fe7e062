//! How full a disk is.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::StatVfs;

/// Fails if the disk of `folder` is fuller than `percent_max`.
pub(super) fn ensure_room(folder: &Path, percent_max: u64) -> Result<()> {
    let disk =
        rustix::fs::statvfs(folder).with_context(|| format!("ask how full the disk of {} is", folder.display()))?;
    let percent = used_percent(&disk);
    ensure!(
        percent <= percent_max,
        "the disk of {} is {percent} % full, and this server needs one that is at most {percent_max} % full; free some space, \
         or set TMPDIR to a folder on another disk",
        folder.display()
    );
    Ok(())
}

/// As `df` counts: blocks that only root may use count as neither used nor free.
fn used_percent(disk: &StatVfs) -> u64 {
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    (used * 100).checked_div(used + disk.f_bavail).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_full_is_named() {
        let folder = std::env::temp_dir();
        ensure_room(&folder, 100).expect("no disk is fuller");
        let mut disk = rustix::fs::statvfs(&folder).expect("the folder's disk");
        (disk.f_blocks, disk.f_bfree, disk.f_bavail) = (100, 20, 10);
        assert_eq!(used_percent(&disk), 88);
        (disk.f_blocks, disk.f_bfree, disk.f_bavail) = (0, 0, 0);
        assert_eq!(used_percent(&disk), 0, "a file system without blocks, such as an overlay's");
    }
}
