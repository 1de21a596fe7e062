//! Plain reqwest, as an application tuned for speed would use it: one client, several tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use diesel_outbox::MessageId;

/// The headers of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The minimum for a webhook.
    Few,
    /// Those that the transport writes.
    Ours,
}

/// Messages a second.
pub(crate) async fn send(
    url: &str,
    messages: usize,
    payload_bytes: usize,
    in_flight: usize,
    headers: Headers,
) -> Result<f64> {
    let client = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(no_tls()?).build()?;
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks = (0..in_flight).map(|_| {
        let (client, next, url) = (client.clone(), Arc::clone(&next), url.to_owned());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= messages {
                    return Ok(());
                }
                let id = MessageId::new().to_string();
                let mut request = client.post(&url).header("content-type", "application/json");
                if headers == Headers::Ours {
                    request = request.header("outbox-kind", "order.placed");
                    request = request.header("outbox-key", number.to_string());
                }
                let request = request.header("idempotency-key", id);
                let response = request.body(vec![b'x'; payload_bytes]).send().await?;
                ensure!(response.status().is_success(), "{}", response.status());
                response.bytes().await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(messages as f64 / started.elapsed().as_secs_f64())
}

/// Nothing here is encrypted, and without this the client would look for a TLS provider.
fn no_tls() -> Result<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}
