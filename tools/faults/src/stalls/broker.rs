//! Whether the broker acknowledges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::CHECK_INTERVAL;
use crate::app::now_ms;
use crate::fault_log::FaultLog;
use crate::group;

/// Below the delivery time-out, after which a message that the broker has may be sent again.
const STALL_MS: u64 = 1_500;
/// Longer than a broker takes to start.
const ACKNOWLEDGED_MAX: Duration = Duration::from_secs(150);

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct BrokerMonitor(Arc<AtomicBool>);

impl BrokerMonitor {
    /// Watches this broker, with a topic and a client of its own.
    ///
    /// # Errors
    /// Returns an error if the topic cannot be created.
    pub(crate) async fn start(bootstrap: String, topic: String, fault_log: FaultLog) -> Result<Self> {
        group::create_topic(&bootstrap, &topic, 1).await?;
        let ends = Arc::new(AtomicBool::new(false));
        let monitor = Self(Arc::clone(&ends));
        let watch = move || {
            if let Err(error) = watch(&bootstrap, &topic, &fault_log, &ends) {
                eprintln!("the broker is not watched any more: {error:#}");
            }
        };
        thread::Builder::new().name("broker".to_owned()).spawn(watch).context("start a thread")?;
        Ok(monitor)
    }
}

impl Drop for BrokerMonitor {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn watch(bootstrap: &str, topic: &str, fault_log: &FaultLog, ends: &AtomicBool) -> Result<()> {
    let producer: BaseProducer = group::client(bootstrap).create().context("create a producer")?;
    while !ends.load(Ordering::Relaxed) {
        let from_ms = now_ms();
        producer.send(BaseRecord::<(), str>::to(topic).payload("")).map_err(|(error, _)| error).context("send")?;
        producer.flush(ACKNOWLEDGED_MAX).context("wait for the acknowledgement")?;
        let until_ms = now_ms();
        if until_ms.saturating_sub(from_ms) >= STALL_MS {
            fault_log.broker_stalled(from_ms, until_ms);
        }
        thread::park_timeout(CHECK_INTERVAL);
    }
    Ok(())
}
