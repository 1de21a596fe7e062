//! Errors say what to do, and no password.

use std::process::Stdio;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection as _};
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::program::{Ran, program, run};
use super::shop::{Kind, Shop};

/// The error of a command: its exit code, and what it says on standard error, where nothing is on standard output.
#[track_caller]
fn assert_error(ran: &Ran, exit: i32, parts: &[&str]) {
    assert_eq!((ran.exit, ran.stdout.as_str()), (exit, ""), "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{part} is not in {}", ran.stderr);
    }
}

async fn without_tables(kind: Kind) {
    let Some(shop) = Shop::empty(kind).await else { return };
    for command in [&["status"][..], &["dead", "list"], &["pause", "orders"]] {
        assert_error(
            &shop.run(command),
            1,
            &["outbox_messages", "0000outbox01_messages", "outbox migrate up", "--prefix"],
        );
    }
    let shop = Shop::fresh(kind).await.expect("the server was there");
    assert_error(&shop.run(&["status", "--prefix", "shop_"]), 1, &["shop_messages", "0000outbox01_messages"]);
}

#[tokio::test]
async fn a_database_without_tables_names_the_migration_on_postgres() {
    without_tables(Kind::Postgres).await;
}

#[tokio::test]
async fn a_database_without_tables_names_the_migration_on_mariadb() {
    without_tables(Kind::Mariadb).await;
}

#[tokio::test]
async fn a_database_without_tables_names_the_migration_on_sqlite() {
    without_tables(Kind::Sqlite).await;
}

/// Tables of another program, or of a later release.
#[tokio::test]
async fn tables_of_another_version_are_refused_on_sqlite() {
    let shop = Shop::empty(Kind::Sqlite).await.expect("a file");
    shop.execute("CREATE TABLE outbox_messages (/* diesel-outbox schema 7 */ id integer)").await;
    assert_error(&shop.run(&["dead", "list"]), 1, &["outbox_messages is of version 7", "migrate list"]);
    let checked = shop.run(&["check"]);
    assert_eq!(checked.exit, 3, "{}", checked.stderr);
}

fn with_password(url: &str, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (login, place) = rest.rsplit_once('@').unwrap_or(("outbox", rest));
    let user = login.split(':').next().expect("a user");
    format!("{scheme}://{user}:{password}@{place}")
}

fn wrong_password(kind: ServerKind) {
    let Some(url) = test_servers::shared_or_skip(kind) else { return };
    let url = with_password(&url, "swordfish");
    for command in
        [&["status"][..], &["check"], &["migrate", "list"], &["migrate", "up"], &["support-bundle", "--file", "-"]]
    {
        let ran = run(&url, command);
        assert_error(&ran, 1, &["refuses the login", "correct the user, the password"]);
        assert!(!ran.stderr.contains("swordfish"), "{}", ran.stderr);
    }
}

#[test]
fn a_wrong_password_is_said_without_it_on_mariadb() {
    wrong_password(ServerKind::Mariadb);
}

/// The shared server trusts everybody, so the role does not exist.
#[tokio::test]
async fn a_wrong_login_is_said_without_its_password_on_postgres() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    AsyncPgConnection::establish(&url).await.expect("connect").batch_execute("SELECT 1").await.expect("it is there");
    let place = url.rsplit_once('@').map_or_else(|| url.split_once("://").expect("a URL").1, |(_, place)| place);
    for command in [&["status"][..], &["migrate", "up"]] {
        let ran = run(&format!("postgres://nobody-of-that-name:swordfish@{place}"), command);
        assert_error(&ran, 1, &["refuses the login", "nobody-of-that-name"]);
        assert!(!ran.stderr.contains("swordfish"), "{}", ran.stderr);
    }
}

#[test]
fn a_wrong_address_says_how_to_give_one() {
    for (url, parts) in [
        ("", &["DATABASE_URL"][..]),
        ("oracle://u:swordfish@h/db", &["postgres://", "mysql://", "sqlite:"]),
        ("postgres://u:swordfish@h", &["/database"]),
        ("postgres://u:swordfish@h/db?sslmode=require", &["sslmode=require"]),
        ("sqlite::memory:", &["the path of a file"]),
    ] {
        let ran = run(url, &["status"]);
        assert_error(&ran, 2, parts);
        assert!(!ran.stderr.contains("swordfish"), "{}", ran.stderr);
    }
    let help = run("postgres://u:swordfish@h/db", &["--help"]);
    assert!(help.exit == 0 && !help.stdout.contains("swordfish"), "{}", help.stdout);
    assert_error(&run("sqlite:/no/such/file.db", &["status"]), 1, &["/no/such/file.db", "migrate up"]);
    assert_error(&run("mysql://u:swordfish@127.0.0.1:1/db", &["status"]), 1, &["cannot be reached"]);
}

/// As by `head`.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut process = program("sqlite:no.db", &["migrate", "sql"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run");
    drop(process.stdout.take());
    let ran = process.wait_with_output().expect("its end");
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
}
