//! A process that dies after the broker has its message: the next copy carries the same context.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::transport::{OutcomeSender, Transport, TransportError};
use diesel_outbox::{Envelope, Outbox, Topic};
use diesel_outbox_otel::{OtelInterceptor, traced};
use opentelemetry::trace::{Tracer as _, TracerProvider as _};

use crate::child;
use crate::collector::DEADLINE;
use crate::shop::{Shop, assert_created, assert_sent, connect, exporting_to, headers, order, store};

#[test]
fn a_resend_after_a_crash_carries_the_same_context_sqlite() {
    let shop = Shop::open();
    let argument = format!("{} {}", shop.collector.endpoint(), shop.file());
    let status = child::run("crash::this_process_dies_in_a_send", &argument);
    assert_eq!(status.signal(), Some(6), "it aborts: {status}");
    let first_copy = std::fs::read_to_string(copy_file(&shop.file())).expect("the broker got the first copy");

    let relay = shop.start();
    let message = shop.delivered(1).remove(0);
    assert_eq!(headers(&message, "traceparent"), [first_copy]);
    let request = shop.collector.wait_for(1, "request").remove(0);
    let created = shop.collector.wait_for(1, "create orders").remove(0);
    assert_created(&created, &request, &message);
    let sent = shop.collector.wait_for(1, "send orders").remove(0);
    assert_sent(&sent, &created.ids, &message);
    assert_eq!(sent.attribute("outbox.path"), Some("swept"));
    drop(relay);
}

fn copy_file(database: &str) -> String {
    format!("{database}.copy")
}

#[test]
fn this_process_dies_in_a_send() {
    let Some(argument) = child::argument() else { return };
    let (endpoint, file) = argument.split_once(' ').expect("two");
    let provider = exporting_to(endpoint);
    let outbox = Outbox::builder().topic(Topic::new("orders"));
    let outbox = outbox.interceptor(OtelInterceptor::new().with_provider(&provider)).build().expect("build");
    let (ended, request_ended) = mpsc::channel();
    let deadly = Deadly { file: copy_file(file), request_ended: Mutex::new(request_ended) };
    let transport = traced(deadly).with_provider(&provider);
    let _relay = outbox.relay().store(store(file)).transport(transport).start_blocking().expect("start");
    let mut conn = connect(file);
    let enqueued = provider
        .tracer("shop")
        .in_span("request", |_| diesel::Connection::transaction(&mut conn, |conn| outbox.enqueue(conn, &order(1))));
    enqueued.expect("commit");
    provider.force_flush().expect("exported");
    ended.send(()).expect("the transport waits");
    std::thread::park_timeout(DEADLINE);
}

/// Takes a message and dies before it says so.
#[derive(Debug)]
struct Deadly {
    file: String,
    /// It comes when the spans of the request are exported.
    request_ended: Mutex<mpsc::Receiver<()>>,
}

#[async_trait]
impl Transport for Deadly {
    fn delivery_timeout(&self) -> Duration {
        Duration::from_secs(20)
    }

    async fn prepare(&self, _topics: &[Topic]) -> Result<(), TransportError> {
        Ok(())
    }

    fn send(&self, envelope: Envelope, _sender: OutcomeSender) {
        std::fs::write(Path::new(&self.file), &headers(&envelope, "traceparent")[0]).expect("stored");
        self.request_ended.lock().expect("no panic").recv_timeout(DEADLINE).expect("the request ends");
        std::process::abort();
    }

    async fn probe(&self) -> Result<(), TransportError> {
        Ok(())
    }

    async fn flush(&self, _within: Duration) -> usize {
        0
    }
}
