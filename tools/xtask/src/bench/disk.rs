//! Whether the servers would store their data on a disk: in memory fsync costs nothing, and the figures would be those of databases
//! that lose everything.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// File systems without a disk.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Refuses a folder that is in memory.
///
/// # Errors
///
/// It is in memory, and `remedy` says what to do; or it cannot be read.
pub(super) fn ensure_below(folder: &Path, remedy: &str) -> Result<()> {
    let device = fs::metadata(folder).with_context(|| format!("inspect {}", folder.display()))?.dev();
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    match kind_of(&mounts, device) {
        Some(kind) if IN_MEMORY.contains(&kind) => {
            bail!("{} is on a {kind}, where fsync costs nothing: {remedy}", folder.display())
        }
        _ => Ok(()),
    }
}

/// The kind of a device's file system, from lines `id parent major:minor root point options .. - kind source options`.
///
/// Not by the longest mount point that is a prefix of the path: paths contain links, and mounts may cover mounts.
fn kind_of(mounts: &str, device: u64) -> Option<&str> {
    let device = numbers(device);
    let mut mounts = mounts.lines().filter_map(|line| line.split_once(" - "));
    let (_, kind) = mounts.find(|(mount, _)| mount.split(' ').nth(2) == Some(device.as_str()))?;
    kind.split(' ').next()
}

/// `major:minor`. Their bits are interleaved, for programs that know only 8 bits of each.
fn numbers(device: u64) -> String {
    let major = ((device >> 8) & 0x0000_0fff) | ((device >> 32) & 0xffff_f000);
    let minor = (device & 0x0000_00ff) | ((device >> 12) & 0xffff_ff00);
    format!("{major}:{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
28 27 0:300 / /mnt/a\\040b rw - tmpfs none rw
";

    #[test]
    fn a_device_has_the_kind_of_its_mount() {
        let kinds = [23, 254 << 8, 0x0010_002c, 22].map(|device| kind_of(MOUNTS, device));
        assert_eq!(kinds, [Some("tmpfs"), Some("ext4"), Some("tmpfs"), None]);
    }

    #[test]
    fn numbers_are_split_as_the_kernel_packs_them() {
        assert_eq!([0, 254 << 8, 0x0010_002c].map(numbers), ["0:0", "254:0", "0:300"]);
    }

    #[test]
    fn a_folder_that_is_not_in_memory_is_accepted() {
        // A file system whose kind is the same on every machine.
        ensure_below(Path::new("/proc"), "").expect("the processes' folder");
        assert!(ensure_below(Path::new("/proc/none"), "").is_err());
    }
}
