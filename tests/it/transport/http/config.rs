//! What cannot work is refused when the transport is made, and no secret is shown.

use std::time::Duration;

use diesel_outbox::Topic;
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, HttpTransportBuilder, Transport};

const SECRETS: [&str; 4] = ["swordfish", "hunter2", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "/hooks"];

fn secretive() -> HttpTarget {
    HttpTarget::new("http://shop.example/hooks?token=swordfish")
        .header("authorization", "Bearer hunter2")
        .sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
}

#[test]
fn invalid_settings_are_refused_by_name_without_the_secret() {
    let every = |target| HttpTransport::builder().default_target(target);
    let refused: Vec<(HttpTransportBuilder, &str)> = vec![
        (HttpTransport::builder(), "default_target"),
        (HttpTransport::builder().topic("orders", HttpTarget::new("swordfish")), "\"orders\""),
        (every(HttpTarget::new("https://user:swordfish@shop.example")), "header"),
        (every(secretive().method("GE T")), "method"),
        (every(secretive().header("a b", "swordfish")), "\"a b\""),
        (every(secretive().header("note", "sword\nfish")), "\"note\""),
        (every(secretive().header("Content-Length", "1")), "set by the transport"),
        (every(secretive().header("webhook-signature", "swordfish")), "set by the transport"),
        (every(secretive().idempotency_header(Some("content-length"))), "set by the transport"),
        (every(secretive().idempotency_header(Some("Host"))), "set by the transport"),
        (every(secretive().idempotency_header(Some("webhook-signature"))), "set by the transport"),
        (every(secretive().sign("swordfish")), "whsec_"),
        (every(secretive().health_url("swordfish")), "URL"),
        (every(HttpTarget::from_header("to")), "deny_private_addresses"),
        (every(HttpTarget::new("http://10.0.0.1/hooks")).deny_private_addresses(), "private"),
        (every(secretive()).timeout(Duration::ZERO), "timeout"),
        (every(secretive()).in_flight_per_host_max(0), "in_flight_per_host_max"),
        (every(secretive()).queue_max(0), "queue_max"),
        (every(HttpTarget::new("https://shop.example")).root_certificate(b"swordfish".to_vec()), "certificate"),
    ];
    for (builder, names) in refused {
        let text = match builder.build() {
            Ok(_) => panic!("{names}: was made"),
            Err(error) => format!("{error} / {error:?}"),
        };
        assert!(text.contains(names), "{names}: {text}");
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

#[tokio::test]
async fn a_topic_without_a_target_prevents_the_start() {
    let transport = HttpTransport::builder().topic("orders", secretive()).build().unwrap();
    transport.prepare(&[Topic::new("orders")]).await.unwrap();
    let error = transport.prepare(&[Topic::new("orders"), Topic::new("invoices")]).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Topic);
    assert!(error.to_string().contains("\"invoices\""), "{error}");
    let limit = diesel_outbox::Limits::default();
    assert!(transport.delivery_timeout() + limit.lease_margin_duration < limit.lease_duration);
}

#[tokio::test]
async fn no_debug_shows_a_secret() {
    let builder = HttpTransport::builder().default_target(secretive());
    let transport = builder.clone().build().unwrap();
    for text in [format!("{:?}", secretive()), format!("{builder:?}"), format!("{transport:?}")] {
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}
