//! The process that dies: this test binary once more, told by its environment to run a shop.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::audit::audit;
use super::branch::{Branch, On};
use super::shop::{DEADLINE, Shop};
use super::troubled::Troubled;

const CONFIG: &str = "OUTBOX_TEST_CHILD";

/// What a shop process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Script {
    pub(super) on: On,
    pub(super) database_url: String,
    pub(super) bootstrap: String,
    pub(super) topic: String,
    /// Orders placed before the relay starts: the sweeper finds them.
    pub(super) backlog: i32,
    /// Orders placed while the relay runs: the hook hands them over.
    pub(super) orders: i32,
    /// The step at which the process gets `signal`, and at which of its passages.
    pub(super) crash_at: Option<String>,
    pub(super) passage: usize,
    /// Stop there instead, until this file is there and the process is told to go on.
    pub(super) stops_until: Option<PathBuf>,
    pub(super) refusals: usize,
    pub(super) acknowledged_after_ms: u64,
}

impl Script {
    /// On PostgreSQL.
    pub(super) fn new(shop: &Shop) -> Self {
        Self {
            on: On::Postgres,
            database_url: shop.database_url.clone(),
            bootstrap: shop.bootstrap.clone(),
            topic: shop.topic.clone(),
            backlog: 0,
            orders: 60,
            crash_at: None,
            passage: 1,
            stops_until: None,
            refusals: 0,
            acknowledged_after_ms: 0,
        }
    }

    /// On the database of a branch.
    pub(super) fn of(branch: &Branch) -> Self {
        Self { on: branch.on, ..Self::new(&branch.at) }
    }

    pub(super) fn spawn(&self) -> ShopProcess {
        ShopProcess::spawn("faults::child::a_shop_process_ends_by_itself", CONFIG, self)
    }
}

/// A running shop process; killed when it is dropped.
#[derive(Debug)]
pub(super) struct ShopProcess(Child);

impl ShopProcess {
    /// Runs a test of this binary, which finds what it is to do in a variable of its environment.
    pub(super) fn spawn(test: &str, variable: &str, script: &impl Serialize) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, serde_json::to_string(script).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the shop process still runs after {DEADLINE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until it was killed.
    pub(super) async fn killed(&mut self) {
        let status = self.ended().await;
        assert_eq!(status.signal(), Some(9), "the step was never reached: {status}");
    }

    /// Waits until it has stopped itself.
    pub(super) async fn stopped(&self) {
        let end = Instant::now() + DEADLINE;
        while !self.is_stopped() {
            assert!(Instant::now() < end, "the step was never reached");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops it, wherever it is. Nothing else of the caller's task goes on before it has stopped.
    pub(super) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let end = Instant::now() + DEADLINE;
        while !self.is_stopped() {
            assert!(Instant::now() < end, "it does not stop");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T')
    }

    pub(super) fn go_on(&self, stopped_until: &Path) {
        std::fs::write(stopped_until, "").unwrap();
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap()
    }
}

impl Drop for ShopProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A shop that nobody kills; and, where its environment says so, the process of all the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_process_ends_by_itself() {
    if let Ok(script) = std::env::var(CONFIG) {
        return run(serde_json::from_str(&script).unwrap()).await;
    }
    let Some(shop) = Shop::open().await else { return };
    let mut process = Script { orders: 10, ..Script::new(&shop) }.spawn();
    assert!(process.ended().await.success());
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.doubled), (audit.committed, 0), "{audit:?}");
}

async fn run(script: Script) {
    let shop = Shop { database_url: script.database_url, bootstrap: script.bootstrap, topic: script.topic };
    let branch = Branch::existing(script.on, shop);
    let outbox = branch.at.outbox();
    branch.place_all(&outbox, 0..script.backlog).await;
    if let Some(step) = script.crash_at {
        arm(step, script.passage, script.stops_until);
    }
    let late = Duration::from_millis(script.acknowledged_after_ms);
    let transport = Troubled::new(branch.at.kafka(), script.refusals, late);
    let relay = branch.relay(&outbox, transport).start().await.unwrap();
    branch.place_all(&outbox, script.backlog..script.backlog + script.orders).await;
    branch.drained().await;
    let report = relay.shutdown(Duration::from_secs(10)).await;
    assert!(report.is_clean(), "{report:?}");
}

/// Lets the process kill or stop itself at the `passage`-th passage of a step.
pub(super) fn arm(step: String, passage: usize, stops_until: Option<PathBuf>) {
    at_passage(step, passage, move || {
        let signal = if stops_until.is_some() { Signal::STOP } else { Signal::KILL };
        kill_process(getpid(), signal).unwrap();
        // The signal may reach another thread first: this one must not get any further meanwhile.
        park_until(|| stops_until.as_ref().is_some_and(|file| file.exists()));
    });
}

/// Lets its thread say that it is there, and wait, at the `passage`-th passage of a step: to be stopped by somebody else.
pub(super) fn arm_to_be_stopped(step: String, passage: usize, is_there: PathBuf, until: PathBuf) {
    at_passage(step, passage, move || {
        std::fs::write(&is_there, "").unwrap();
        park_until(|| until.exists());
    });
}

fn at_passage(step: String, passage: usize, act: impl Fn() + Send + Sync + 'static) {
    let passages = AtomicUsize::new(0);
    fail::cfg_callback(step, move || {
        if passages.fetch_add(1, Ordering::AcqRel) + 1 == passage {
            act();
        }
    })
    .unwrap();
}

fn park_until(state: impl Fn() -> bool) {
    while !state() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
