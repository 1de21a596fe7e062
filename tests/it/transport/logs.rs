//! Nothing of a login is in any log: not in the library's, nor in those of the client libraries, down to their traces.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tracing::level_filters::LevelFilter;

/// Says to a process of its own, which has the one logger, what it is to do.
const LOGS: &str = "OUTBOX_TEST_LOGS_OF";

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The process of the others, where its environment says so.
#[test]
fn a_process_logs_everything() {
    let Ok(of) = std::env::var(LOGS) else { return };
    let written = Written::default();
    let writer = written.clone();
    let logger = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_ansi(false);
    logger.with_writer(move || writer.clone()).init();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let Some(secrets) = runtime.block_on(async {
        match &*of {
            "kafka" => super::kafka_access::logs_in().await,
            #[cfg(feature = "_test")]
            "rocketmq" => super::rocketmq_down::logs_in().await,
            "http" => Some(super::http::logs_in().await),
            other => panic!("no such transport: {other}"),
        }
    }) else {
        return;
    };
    drop(runtime);
    let logged = String::from_utf8_lossy(&written.0.lock().expect("no panic")).into_owned();
    let is_inner = |line: &str| (line.contains("TRACE") || line.contains("DEBUG")) && line.contains(&of);
    assert!(logged.lines().any(is_inner), "the client library logged nothing: {logged}");
    assert!(secrets.len() > 1, "a right one and a wrong one");
    for secret in secrets {
        let line = logged.lines().find(|line| line.contains(&secret));
        assert!(line.is_none(), "a secret of {of} is logged: {line:?}");
    }
}

fn logs_no_secret(of: &str) {
    let mut process = Command::new(std::env::current_exe().expect("this program"));
    process.args(["--exact", "transport::logs::a_process_logs_everything", "--nocapture"]).env(LOGS, of);
    let output = process.output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_login_of_kafka_is_in_no_log() {
    logs_no_secret("kafka");
}

#[test]
fn a_login_of_rocketmq_is_in_no_log() {
    logs_no_secret("rocketmq");
}

#[test]
fn a_login_of_http_is_in_no_log() {
    logs_no_secret("http");
}
