//! kill -9 at every step of a half message's way; another process answers for it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use diesel::result::Error;
use diesel::{MysqlConnection, PgConnection, SqliteConnection};
use diesel_outbox::half_messages::HalfMessages;
use rustix::process::{Signal, getpid, kill_process};

use super::database::{TestDatabase, on_each_database};
use super::fixture::{DEADLINE, Fixture, insert, until};

const CONFIG: &str = "OUTBOX_TEST_HALF_CHILD";

/// Sends a half message and ends its transaction; its id is in `sent` before anything can become of it.
fn scan<S: TestDatabase>(fixture: &Fixture<S>, halves: &HalfMessages, conn: &mut S, number: i32) {
    let half = halves.send_blocking(&fixture.message(number)).unwrap();
    let id = half.message_id();
    conn.batch_execute(&format!("INSERT INTO sent VALUES ('{id}')")).unwrap();
    let ended = conn.transaction(|conn| {
        half.mark(conn)?;
        insert(conn, number, id)?;
        if number == 2 { Err(Error::RollbackTransaction) } else { Ok(()) }
    });
    assert_eq!(ended.is_ok(), number != 2, "{ended:?}");
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
}

/// The process of the others, where its environment says so.
#[test]
fn a_rocketmq_half_process_scans() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    let (site, config): (String, String) = serde_json::from_str(&config).unwrap();
    match &*site {
        PgConnection::NAME => scans::<PgConnection>(&config),
        MysqlConnection::NAME => scans::<MysqlConnection>(&config),
        SqliteConnection::NAME => scans::<SqliteConnection>(&config),
        other => panic!("no such database: {other}"),
    }
}

fn scans<S: TestDatabase>(config: &str) {
    let (fixture, step): (Fixture<S>, String) = serde_json::from_str(config).unwrap();
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    for number in 1..=2 {
        scan(&fixture, &halves, &mut conn, number);
    }
    fail::cfg_callback(step, || {
        kill_process(getpid(), Signal::KILL).unwrap();
        // The signal may reach another thread first: this one must not get any further meanwhile.
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    scan(&fixture, &halves, &mut conn, 3);
}

/// Kills a process at a step of its third message, and lets another answer for it.
fn dies_at<S: TestDatabase>(step: &str, commits: bool) {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let config = (S::NAME, serde_json::to_string(&(&fixture, step)).unwrap());
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "transport::half_rocketmq::crash::a_rocketmq_half_process_scans", "--nocapture"])
        .env(CONFIG, serde_json::to_string(&config).unwrap())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9), "the step was never reached: {status}");
    let _answers = fixture.halves();
    assert_eq!(fixture.committed().len(), if commits { 2 } else { 1 }, "at {step}");
    fixture.until_delivered_once();
    if !commits {
        // Its sender may not have lived to note it.
        let earlier = fixture.first_sent(2);
        until("the one in doubt is void", || {
            fixture.marks().iter().any(|(id, is_void)| *is_void && !earlier.contains(id))
        });
        fixture.until_delivered_once();
    }
}

macro_rules! at_each_step {
    ($($test:ident = $step:literal, $commits:literal;)+) => {
        $(fn $test<S: TestDatabase>() {
            dies_at::<S>($step, $commits);
        })+

        on_each_database!($($test),+);

        /// The steps that are tested here.
        pub(crate) const TESTED: &[&str] = &[$($step,)+];
    };
}

at_each_step! {
    before_the_transaction = "half::sent", false;
    before_the_commit = "half::marked", false;
    after_the_commit = "half::ending", true;
    before_the_decision_is_sent = "half::decided", true;
    after_the_decision_was_sent = "half::forgetting", true;
}
