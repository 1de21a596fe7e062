//! The process that dies: this test binary once more, told by its environment to run a shop.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::any_shop::{AnyShop, Database};
use super::audit::audit;
use super::faulty_transport::FaultyKafka;
use super::shop::{DEADLINE, Shop};

const CONFIG: &str = "OUTBOX_TEST_CHILD";

/// What a shop process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Script {
    pub(super) on: Database,
    pub(super) database_url: String,
    pub(super) bootstrap: String,
    pub(super) topic: String,
    /// Orders placed before the relay starts: the sweeper finds them.
    pub(super) backlog: i32,
    /// Orders placed while the relay runs: the hook hands them over.
    pub(super) orders: i32,
    /// The step at which the process gets `signal`, and at which hit of it.
    pub(super) crash_at: Option<String>,
    pub(super) nth_hit: usize,
    /// Stop there instead, until this file is there and the process is told to go on.
    pub(super) resume_file: Option<PathBuf>,
    pub(super) refusals: usize,
    pub(super) acknowledged_after_ms: u64,
}

impl Script {
    /// On PostgreSQL.
    pub(super) fn new(shop: &Shop) -> Self {
        Self {
            on: Database::Postgres,
            database_url: shop.database_url.clone(),
            bootstrap: shop.bootstrap.clone(),
            topic: shop.topic.clone(),
            backlog: 0,
            orders: 60,
            crash_at: None,
            nth_hit: 1,
            resume_file: None,
            refusals: 0,
            acknowledged_after_ms: 0,
        }
    }

    /// On the database of the shop.
    pub(super) fn of(any_shop: &AnyShop) -> Self {
        Self { on: any_shop.on, ..Self::new(&any_shop.at) }
    }

    pub(super) fn spawn(&self) -> ShopProcess {
        ShopProcess::spawn("faults::child::a_shop_process_ends_by_itself", CONFIG, self)
    }
}

/// A running shop process; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct ShopProcess(Child);

impl ShopProcess {
    /// Runs a test of this binary, which finds what it is to do in a variable of its environment.
    pub(crate) fn spawn(test: &str, variable: &str, script: &impl Serialize) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, serde_json::to_string(script).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Waits for its end.
    pub(crate) async fn wait_for_exit(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the shop process still runs after {DEADLINE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills it, wherever it is, and waits for its end.
    pub(super) async fn kill(&mut self) {
        self.0.kill().unwrap();
        self.wait_until_killed().await;
    }

    /// Waits until it was killed.
    pub(crate) async fn wait_until_killed(&mut self) {
        let status = self.wait_for_exit().await;
        assert_eq!(status.signal(), Some(9), "the step was never reached: {status}");
    }

    /// Waits until it has stopped itself.
    pub(super) async fn wait_until_stopped(&self) {
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

    pub(super) fn resume(&self, resume_file: &Path) {
        std::fs::write(resume_file, "").unwrap();
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
    assert!(process.wait_for_exit().await.success());
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.duplicates), (audit.committed, 0), "{audit:?}");
}

async fn run(script: Script) {
    let shop = Shop { database_url: script.database_url, bootstrap: script.bootstrap, topic: script.topic };
    let any_shop = AnyShop::existing(script.on, shop);
    let outbox = any_shop.at.outbox();
    any_shop.place_all(&outbox, 0..script.backlog).await;
    if let Some(step) = script.crash_at {
        arm_failpoint(step, script.nth_hit, script.resume_file);
    }
    let late = Duration::from_millis(script.acknowledged_after_ms);
    let transport = FaultyKafka::new(any_shop.at.kafka(), script.refusals, late);
    let relay = any_shop.relay(&outbox, transport).start().await.unwrap();
    any_shop.place_all(&outbox, script.backlog..script.backlog + script.orders).await;
    any_shop.wait_until_drained().await;
    let report = relay.shutdown(Duration::from_secs(10)).await;
    assert!(report.is_clean(), "{report:?}");
}

/// Lets the process kill or stop itself at the `nth_hit`-th hit of a failpoint.
pub(crate) fn arm_failpoint(step: String, nth_hit: usize, resume_file: Option<PathBuf>) {
    on_nth_hit(step, nth_hit, move || {
        let signal = if resume_file.is_some() { Signal::STOP } else { Signal::KILL };
        kill_process(getpid(), signal).unwrap();
        // The signal may reach another thread first: this one must not get any further meanwhile.
        wait_until(|| resume_file.as_ref().is_some_and(|file| file.exists()));
    });
}

/// Lets its thread say that it is there, and wait, at the `nth_hit`-th hit of a failpoint: to be stopped by somebody else.
pub(super) fn arm_failpoint_to_wait(step: String, nth_hit: usize, ready_file: PathBuf, until: PathBuf) {
    on_nth_hit(step, nth_hit, move || {
        std::fs::write(&ready_file, "").unwrap();
        wait_until(|| until.exists());
    });
}

fn on_nth_hit(step: String, nth_hit: usize, act: impl Fn() + Send + Sync + 'static) {
    let hits = AtomicUsize::new(0);
    fail::cfg_callback(step, move || {
        if hits.fetch_add(1, Ordering::AcqRel) + 1 == nth_hit {
            act();
        }
    })
    .unwrap();
}

fn wait_until(state: impl Fn() -> bool) {
    while !state() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
