//! TLS by rustls: an authority of one's own, and nobody else's.

use std::sync::Arc;

use diesel_outbox::testing::RecordedOutcome;
use diesel_outbox::transport::{FailureClass, HttpTarget, HttpTransport, Transport};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{envelope, sent};

/// Valid for a hundred years and for localhost; made for these tests, as is its key.
const AUTHORITY: &[u8] = include_bytes!("certificates/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("certificates/receiver.pem");
const KEY: &[u8] = include_bytes!("certificates/receiver.key");

/// Answers 204 to every request on its own connection, until it is dropped; returns its port.
async fn receiver() -> (u16, JoinSet<()>) {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_slice(KEY).unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust it hangs up.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n{}") && !request.starts_with(b"HEAD") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0, "the request ends early");
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    (port, tasks)
}

#[tokio::test]
async fn only_the_given_certificate_authority_is_trusted() {
    let (port, _receiver) = receiver().await;
    let target = || HttpTarget::new(format!("https://localhost:{port}/"));
    let trusting = HttpTransport::builder().default_target(target()).root_certificate(AUTHORITY).build().unwrap();
    assert_eq!(sent(&trusting, envelope("orders")).await, RecordedOutcome::Delivered);
    trusting.probe().await.unwrap();

    // Another one of its own, because a machine may have none at all, and then there is no transport either.
    let other = HttpTransport::builder().default_target(target()).root_certificate(CERTIFICATE).build().unwrap();
    let seen = sent(&other, envelope("orders")).await;
    assert_eq!(seen.class(), Some(FailureClass::Connection), "{seen:?}");
    assert!(format!("{seen:?}").contains("certificate"), "it says why: {seen:?}");
    assert_eq!(other.probe().await.unwrap_err().class(), FailureClass::Connection);
}
