//! What was counted: by the library's metrics, by the database, and by the consumer.

use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::Failure;

/// The library's own metrics, which an application would send to Prometheus or the like.
pub(crate) struct Metrics {
    snapshotter: Snapshotter,
    delivered: u64,
    waits: Vec<Duration>,
}

impl Metrics {
    pub(crate) fn install() -> Result<Self, Failure> {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install()?;
        Ok(Self { snapshotter, delivered: 0, waits: Vec::new() })
    }

    /// Messages acknowledged by Kafka since the last act.
    pub(crate) fn delivered(&mut self) -> u64 {
        self.read();
        self.delivered
    }

    /// Those of them that the commit hook handed over: of each the time from COMMIT to acknowledgement, in order.
    pub(crate) fn direct(&mut self) -> &[Duration] {
        self.read();
        self.waits.sort_unstable();
        &self.waits
    }

    pub(crate) fn reset(&mut self) {
        self.read();
        self.delivered = 0;
        self.waits.clear();
    }

    /// A snapshot holds what came since the one before.
    fn read(&mut self) {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            match (key.key().name(), value) {
                ("outbox_delivered_total", DebugValue::Counter(count)) => self.delivered += count,
                ("outbox_commit_to_ack_seconds", DebugValue::Histogram(seconds)) => {
                    self.waits.extend(seconds.iter().map(|seconds| Duration::from_secs_f64(**seconds)));
                }
                _ => {}
            }
        }
    }
}

/// One act, or all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) placed: usize,
    pub(crate) committed: usize,
    pub(crate) direct: usize,
    pub(crate) swept: usize,
    pub(crate) never_sent: usize,
    pub(crate) duplicates: usize,
}

impl Figures {
    fn columns(self) -> [usize; 6] {
        [self.placed, self.committed, self.direct, self.swept, self.never_sent, self.duplicates]
    }
}

/// The closing table.
#[derive(Default)]
pub(crate) struct Table(Vec<(&'static str, Figures)>);

impl Table {
    pub(crate) fn add(&mut self, act: &'static str, figures: Figures) {
        self.0.push((act, figures));
    }

    pub(crate) fn total(&self) -> Figures {
        self.0.iter().fold(Figures::default(), |sum, (_, act)| Figures {
            placed: sum.placed + act.placed,
            committed: sum.committed + act.committed,
            direct: sum.direct + act.direct,
            swept: sum.swept + act.swept,
            never_sent: sum.never_sent + act.never_sent,
            duplicates: sum.duplicates + act.duplicates,
        })
    }

    pub(crate) fn print(&self) {
        println!("{:28}{}", "Orders and their messages", TITLES.map(|title| format!("  {title}")).concat());
        let total = ("All together", self.total());
        for (act, figures) in self.0.iter().chain([&total]) {
            let cells = figures.columns().into_iter().zip(TITLES).map(|(count, title)| cell(count, title.len() + 2));
            println!("{act:28}{}", cells.collect::<String>());
        }
    }
}

const TITLES: [&str; 6] = ["placed", "committed", "sent directly", "swept", "never sent", "duplicates"];

fn cell(count: usize, width: usize) -> String {
    if count == 0 { format!("{:>width$}", "-") } else { format!("{count:>width$}") }
}
