//! pgbouncer in front of a PostgreSQL server.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::account::Account;
use super::folder::Folder;
use super::install;
use super::port::{free_port, on_free_ports};
use super::process::{Server, run};

/// The variable with the path of another pgbouncer to test with, in addition to the installed one.
pub const SECOND_PGBOUNCER: &str = "OUTBOX_TEST_PGBOUNCER";

/// How pgbouncer is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program; one of [`programs`].
    pub program: PathBuf,
    /// `pool_mode`.
    pub pool_mode: &'static str,
    /// Further settings, as in the section `[pgbouncer]` of its file.
    pub settings: Vec<(String, String)>,
}

/// The pgbouncers of this machine: the installed one, and the one that [`SECOND_PGBOUNCER`] names.
///
/// # Errors
///
/// [`Unavailable`](super::Unavailable) if there is none.
pub fn programs() -> Result<Vec<PathBuf>> {
    let another = std::env::var_os(SECOND_PGBOUNCER).map(PathBuf::from);
    Ok([install::pgbouncer()?].into_iter().chain(another).collect())
}

/// A pgbouncer of our own, for one server and its user. Dropping it kills it.
#[derive(Debug)]
pub struct Pgbouncer {
    server: Option<Server>,
    upstream: Upstream,
    version: (u32, u32),
    port: u16,
    _folder: Folder,
}

/// The parts of a URL `postgres://user:password@host:port/..`.
#[derive(Debug)]
struct Upstream {
    user: String,
    password: String,
    host: String,
    port: String,
}

impl Upstream {
    fn of(url: &str) -> Option<Self> {
        let (account, place) = url.strip_prefix("postgres://")?.split_once('@')?;
        let (user, password) = account.split_once(':')?;
        let (host, port) = place.split('/').next()?.split_once(':')?;
        let [user, password, host, port] = [user, password, host, port].map(str::to_owned);
        Some(Self { user, password, host, port })
    }
}

impl Pgbouncer {
    /// Starts one in front of the server at `url`; returns when it answers. It gives access to every database of the server.
    ///
    /// # Errors
    ///
    /// It does not start; the message ends with the end of its log.
    pub fn start(url: &str, options: &Options) -> Result<Self> {
        on_free_ports(|| Self::start_once(url, options))
    }

    fn start_once(url: &str, options: &Options) -> Result<Self> {
        let upstream = Upstream::of(url).context("the server's URL has no user, password, host and port")?;
        let account = Account::of_package(&["postgres"])?;
        let folder = Folder::new(None, "pgbouncer", account)?;
        let port = free_port()?;
        let Upstream { user, password, host, port: server_port } = &upstream;
        let users = folder.write("users.txt", &format!("\"{user}\" \"{password}\"\n"), account)?;
        let own = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = plain\nauth_file = {}\nadmin_users = {user}\npool_mode = {}\n",
            users.display(),
            options.pool_mode
        );
        let further = options.settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
        let file = folder.write("pgbouncer.ini", &[own].into_iter().chain(further).collect::<String>(), account)?;
        let version = version(&options.program)?;
        let mut server = Server::spawn(&options.program, &[file.display().to_string()], account, &folder)?;
        let responds = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        server.wait_ready(responds).context("pgbouncer does not start")?;
        Ok(Self { server: Some(server), upstream, version, port, _folder: folder })
    }

    /// The URL of `database` through it.
    pub fn url(&self, database: &str) -> String {
        let Upstream { user, password, .. } = &self.upstream;
        format!("postgres://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// Its major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Ends it. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(Signal::INT))
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        // Drop cannot return an error.
        let _ = self.server.take().map(Server::kill9);
    }
}

/// The major and minor version of a program.
///
/// # Errors
///
/// It cannot be run, or prints no version.
pub fn version(program: &Path) -> Result<(u32, u32)> {
    let text = run(Command::new(program).arg("--version"))?;
    match parse_version(&text) {
        Some(version) => Ok(version),
        None => bail!("{} prints no version: {text}", program.display()),
    }
}

/// Parses a text that begins with `PgBouncer 1.18.0`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_urls_are_read() {
        assert_eq!(parse_version("PgBouncer 1.18.0\nlibevent 2.1.12-stable\n"), Some((1, 18)));
        assert_eq!(parse_version("command not found"), None);
        let upstream = Upstream::of("postgres://u:p@127.0.0.1:5432/shop").expect("a whole URL");
        assert_eq!(
            (&*upstream.user, &*upstream.password, &*upstream.host, &*upstream.port),
            ("u", "p", "127.0.0.1", "5432")
        );
        assert!(Upstream::of("postgres://127.0.0.1/shop").is_none());
    }
}
