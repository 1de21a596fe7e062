use std::fs;
use std::process::{Command, Stdio};

use diesel::Connection as _;
use xtask::servers::{Postgres, postgres::Options};
use xtask::test_servers;

use super::{eventually, is_gone};

/// The environment variable with the file in which the process to be killed writes the id of its server.
const SERVER_PID_FILE: &str = "OUTBOX_TEST_HELD_SERVER";

#[test]
fn a_postgres_dies_with_a_killed_test_run() {
    if let Ok(file) = std::env::var(SERVER_PID_FILE) {
        run_server_until_killed(&file);
    }
    if test_servers::own_or_skip(Postgres::start(&Options::default())).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("pid");
    let this = "servers::orphan::a_postgres_dies_with_a_killed_test_run";
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    // Its server's folder is inside ours: nobody else is left to remove it.
    run.args(["--exact", this])
        .env(SERVER_PID_FILE, &file)
        .env("TMPDIR", open_to_all(folder.path()))
        .stdout(Stdio::null());
    let mut run = run.spawn().expect("a second test run");
    let pid = eventually("a server in the second run", || fs::read_to_string(&file).ok()?.parse::<u32>().ok());
    assert!(!is_gone(pid));
    run.kill().expect("kill -9");
    run.wait().expect("reap");
    eventually("the end of its server", || is_gone(pid).then_some(()));
}

/// The body of the process to be killed.
fn run_server_until_killed(file: &str) -> ! {
    let server = Postgres::start(&Options::default()).expect("a server");
    let partial = format!("{file}.partial");
    fs::write(&partial, server.pid().expect("it runs").to_string()).expect("write");
    fs::rename(&partial, file).expect("rename");
    loop {
        std::thread::park();
    }
}

/// If we are root, the server runs as another user.
fn open_to_all(folder: &std::path::Path) -> &std::path::Path {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("open the folder");
    folder
}

#[test]
fn a_postgres_outlives_the_thread_that_started_it() {
    let start = std::thread::spawn(|| Postgres::start(&Options::default()));
    let Some(server) = test_servers::own_or_skip(start.join().expect("no panic")) else { return };
    // The kernel sends death signals when the thread ends, so one would have come by now.
    diesel::PgConnection::establish(&server.url()).expect("it still runs");
}
