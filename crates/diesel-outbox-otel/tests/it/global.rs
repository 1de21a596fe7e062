//! The global provider, which may be set after the outbox was built.

use opentelemetry::global;

use crate::collector::{Collector, DEADLINE};
use crate::shop::{Shop, connect, exporting_to, order, outbox, store};
use crate::{child, shop};

#[test]
fn a_global_provider_may_be_set_late_sqlite() {
    let collector = Collector::start();
    let shop = Shop::open();
    let argument = format!("{} {}", collector.endpoint(), shop.file());
    let status = child::run("global::this_process_sets_a_global_provider", &argument);
    assert!(status.success(), "{status}");
    let created = collector.wait_for(1, "create orders").remove(0);
    let sent = collector.wait_for(1, "send orders").remove(0);
    assert_eq!(sent.linked(), [created.ids]);
}

/// In a process of its own: other tests rely on that there is none.
#[test]
fn this_process_sets_a_global_provider() {
    let Some(argument) = child::argument() else { return };
    let (endpoint, file) = argument.split_once(' ').expect("two");
    let outbox = outbox(diesel_outbox_otel::OtelInterceptor::new());
    let broker = diesel_outbox::transport::MemoryTransport::new();
    let transport = diesel_outbox_otel::traced(broker.clone());
    let relay = outbox.relay().store(store(file)).transport(transport).start_blocking().expect("start");
    let provider = exporting_to(endpoint);
    global::set_tracer_provider(provider.clone());
    let mut conn = connect(file);
    diesel::Connection::transaction(&mut conn, |conn| outbox.enqueue(conn, &order(1))).expect("commit");
    let message = broker.wait_for_delivered_blocking(1, DEADLINE).expect("delivered").remove(0);
    assert_eq!(shop::headers(&message, "traceparent").len(), 1);
    relay.shutdown(DEADLINE).expect("shutdown");
    provider.shutdown().expect("exported");
}
