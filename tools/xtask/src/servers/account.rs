//! Which user a server runs as.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// The user that a server runs as, if it is not the current one.
///
/// Databases refuse to run as root. So root runs them as the user of their package, or else as `nobody`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    drop_to: Option<(u32, u32)>,
}

impl Account {
    /// The first of `names` that exists, if this process is root; else the current user.
    pub(super) fn of_package(names: &[&str]) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self { drop_to: None });
        }
        let passwd = fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
        let drop_to = names.iter().chain(&["nobody"]).find_map(|name| ids_of(&passwd, name));
        Ok(Self { drop_to: Some(drop_to.context("found no user other than root to run a database as")?) })
    }

    /// The current user, root or not.
    pub(super) fn current() -> Self {
        Self { drop_to: None }
    }

    /// Makes `command` run as this user, inside `folder`: this user may lack access to the current folder and the temporary one.
    pub(super) fn apply(self, command: &mut Command, folder: &Path) {
        command.current_dir(folder).env("TMPDIR", folder);
        if let Some((user, group)) = self.drop_to {
            command.uid(user).gid(group);
        }
    }

    /// Gives `path` to this user.
    pub(super) fn own(self, path: &Path) -> Result<()> {
        if let Some((user, group)) = self.drop_to {
            std::os::unix::fs::chown(path, Some(user), Some(group))
                .with_context(|| format!("give {} to the server's user", path.display()))?;
        }
        Ok(())
    }
}

/// User and group id of `name` in the text of a passwd file.
fn ids_of(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut ids = line.split(':').skip(2);
    Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::ids_of;

    #[test]
    fn ids_come_from_the_line_of_exactly_that_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:105:110::/:/bin/sh\n";
        assert_eq!(ids_of(passwd, "postgres"), Some((105, 110)));
        assert_eq!(ids_of(passwd, "mysql"), None);
    }
}
