//! The `create` span of each way of enqueueing.

use diesel::SqliteConnection;
use diesel_async::AsyncConnection as _;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_outbox::{Message, Outbox, Topic};
use diesel_outbox_otel::OtelInterceptor;
use opentelemetry::Context;
use opentelemetry::trace::{FutureExt as _, TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry_sdk::trace::Sampler;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::collector::Span;
use crate::shop::{Shop, assert_created, assert_sent, headers, order};

type AsyncSqlite = SyncConnectionWrapper<SqliteConnection>;

/// Asserts that each delivered message has its own creation in this request, and its send a link to that.
fn assert_traced(shop: &Shop, request: &Span, count: usize) {
    let created = shop.collector.wait_for(count, "create orders");
    let delivered = shop.delivered(count);
    for message in &delivered {
        let id = message.message_id.to_string();
        let of_message = |span: &&Span| span.attribute("messaging.message.id") == Some(&id);
        let of_message: Vec<_> = created.iter().filter(of_message).collect();
        let [created] = of_message[..] else { panic!("not one creation of {id}: {created:#?}") };
        assert_created(created, request, message);
    }
}

#[test]
fn every_enqueue_makes_a_span_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    let request = shop.in_request(|conn| {
        shop.outbox.enqueue(conn, &order(1))?;
        shop.outbox.enqueue_all(conn, [order(2), order(3)])?;
        shop.outbox.batch().add(&order(4))?.add(&order(5))?.write(conn)
    });
    assert_traced(&shop, &request, 5);
    drop(relay);
}

#[test]
fn every_enqueue_of_a_transaction_makes_a_span_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    let mut conn = shop.connect();
    let tracer = shop.collector.provider().tracer("shop");
    let committed = tracer.in_span("request", |_| {
        shop.outbox.transaction(&mut conn, |tx| {
            tx.enqueue(&order(1))?;
            tx.enqueue_all([order(2), order(3)])
        })
    });
    committed.expect("commit");
    let request = shop.collector.wait_for(1, "request").remove(0);
    assert_traced(&shop, &request, 3);
    drop(relay);
}

#[test]
fn every_asynchronous_enqueue_makes_a_span_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    let tracer = shop.collector.provider().tracer("shop");
    let request = Context::new().with_span(tracer.start_with_context("request", &Context::new()));
    let enqueue = async {
        let mut conn: AsyncSqlite = SyncConnectionWrapper::new(shop.connect());
        let in_transaction = conn.transaction(async |conn| {
            shop.outbox.enqueue_async(conn, &order(1)).await?;
            shop.outbox.enqueue_all_async(conn, [order(2), order(3)]).await?;
            shop.outbox.batch().add(&order(4))?.write_async(conn).await
        });
        in_transaction.await.expect("commit");
        let of_transaction = shop.outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(5)));
        of_transaction.await.expect("commit");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(enqueue.with_context(request.clone()));
    request.span().end();
    let request = shop.collector.wait_for(1, "request").remove(0);
    assert_traced(&shop, &request, 5);
    drop(relay);
}

/// The application's context stays as it is, in whatever case it wrote the names.
#[test]
fn a_context_of_the_application_stays_as_it_is_sqlite() {
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let shop = Shop::open();
    let relay = shop.start();
    shop.in_request(|conn| {
        let own = order(1).header("traceparent", OWN).header("tracestate", "vendor=1");
        shop.outbox.enqueue(conn, &own)
    });
    let message = shop.delivered(1).remove(0);
    assert_eq!(headers(&message, "traceparent"), [OWN]);
    assert_eq!(headers(&message, "tracestate"), ["vendor=1"]);
    let sent = shop.collector.wait_for(1, "send orders").remove(0);
    let own = ("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned());
    assert_sent(&sent, &own, &message);

    shop.in_request(|conn| shop.outbox.enqueue(conn, &order(2).header("TraceParent", OWN)));
    let message = shop.delivered(2).remove(1);
    assert_eq!(headers(&message, "traceparent"), [""; 0]);
    assert_eq!(shop.collector.wait_for(2, "send orders")[1].linked(), [own]);
    assert_eq!(shop.collector.named("create orders").len(), 0);
    drop(relay);
}

/// The decision not to sample goes with the message, and nothing is recorded.
#[test]
fn what_is_not_sampled_is_passed_on_as_such_sqlite() {
    let shop = Shop::sampling(Sampler::AlwaysOff);
    let relay = shop.start();
    let mut conn = shop.connect();
    conn.immediate_transaction(|conn| shop.outbox.enqueue(conn, &order(1))).expect("commit");
    let message = shop.delivered(1).remove(0);
    let carried = headers(&message, "traceparent");
    assert!(carried.len() == 1 && carried[0].ends_with("-00"), "{carried:?}");
    assert!(shop.collector.spans().is_empty());
    drop(relay);
}

/// The global provider of this process is none: a test that sets one does so in a process of its own.
#[test]
fn without_a_provider_only_a_context_that_is_there_is_passed_on_sqlite() {
    let shop = Shop::open();
    let outbox = Outbox::builder().topic(Topic::new("orders")).interceptor(OtelInterceptor::new()).build();
    let outbox = outbox.expect("build");
    let relay = shop.start();
    let mut conn = shop.connect();
    let mut enqueue = |number| conn.immediate_transaction(|conn| outbox.enqueue(conn, &order(number)));
    enqueue(1).expect("commit");
    let tracer = shop.collector.provider().tracer("shop");
    tracer.in_span("request", |_| enqueue(2)).expect("commit");
    let request = shop.collector.wait_for(1, "request").remove(0);
    let delivered = shop.delivered(2);
    let carried = delivered.iter().flat_map(|message| headers(message, "traceparent"));
    assert_eq!(carried.collect::<Vec<_>>(), [request.trace_parent()]);
    drop(relay);
}

#[test]
fn the_trace_state_of_the_request_goes_with_the_message_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    let remote = diesel_outbox_otel::consumer::headers_context([
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "vendor=1"),
    ]);
    let active = remote.attach();
    let mut conn = shop.connect();
    conn.immediate_transaction(|conn| shop.outbox.enqueue(conn, &Message::to("orders"))).expect("commit");
    drop(active);
    let created = shop.collector.wait_for(1, "create orders").remove(0);
    assert_eq!(
        (created.ids.0.as_str(), created.parent.as_str()),
        ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    );
    assert_eq!(created.attribute("outbox.kind"), None, "it has none");
    let message = shop.delivered(1).remove(0);
    assert_eq!(headers(&message, "tracestate"), ["vendor=1"]);
    drop(relay);
}

/// With `tracing-opentelemetry`, activating contexts or not.
#[test]
fn the_current_span_of_tracing_is_the_parent_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    for (count, activates) in [(1, true), (2, false)] {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(shop.collector.provider().tracer("shop"))
            .with_context_activation(activates);
        let mut conn = shop.connect();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let request = tracing::info_span!("handle");
            let _entered = request.enter();
            conn.immediate_transaction(|conn| shop.outbox.enqueue(conn, &order(1))).expect("commit");
        });
        let request = shop.collector.wait_for(count, "handle").remove(count - 1);
        let created = shop.collector.wait_for(count, "create orders").remove(count - 1);
        let message = shop.delivered(count).remove(count - 1);
        assert_created(&created, &request, &message);
    }
    drop(relay);
}
