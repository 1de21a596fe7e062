//! The client: rustls with ring, no redirects, no proxy of the environment.

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig as TlsConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;

use super::address_filter::PublicAddressResolver;
use super::error::HttpConfigError;

pub(super) struct ClientConfig<'a> {
    pub(super) allows_private: bool,
    /// Whether anything goes by https.
    pub(super) needs_roots: bool,
    pub(super) certificates: &'a [Vec<u8>],
    pub(super) user_agent: &'a str,
    pub(super) connect_timeout: Duration,
    pub(super) idle_max: usize,
}

pub(super) fn new(config: &ClientConfig<'_>) -> Result<Client, HttpConfigError> {
    let mut builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls(config)?)
        // A redirect would send the message, and its credentials, to where nobody configured it to go.
        .redirect(Policy::none())
        // Nor does the environment decide where messages go; and a proxy would resolve names behind the guard's back.
        .no_proxy()
        // Whatever features other crates turn on: one connection has one request, as the bound on those under way counts them.
        .http1_only()
        // What is sent again is the relay's to say. By this the client need not copy each request for it, either.
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .user_agent(config.user_agent)
        .connect_timeout(config.connect_timeout)
        .pool_max_idle_per_host(config.idle_max);
    if !config.allows_private {
        builder = builder.dns_resolver(PublicAddressResolver);
    }
    builder.build().map_err(|error| HttpConfigError::Client(error.into()))
}

fn tls(config: &ClientConfig<'_>) -> Result<TlsConfig, HttpConfigError> {
    let provider = Arc::new(ring::default_provider());
    let builder = TlsConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpConfigError::Client(error.into()))?;
    if !config.needs_roots {
        // Not the system's: a machine without any would refuse a configuration that needs none.
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    let mut extra = Vec::new();
    for given in config.certificates {
        extra.extend(certificates(given)?);
    }
    // Looked at here, because with all the others nobody would say which of them is none.
    let mut store = rustls::RootCertStore::empty();
    for certificate in &extra {
        store.add(certificate.clone()).map_err(|error| HttpConfigError::Certificate(error.into()))?;
    }
    let verifier =
        Verifier::new_with_extra_roots(extra, provider).map_err(|error| HttpConfigError::SystemRoots(error.into()))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Every certificate of a PEM file, or the one that the bytes are.
fn certificates(given: &[u8]) -> Result<Vec<CertificateDer<'static>>, HttpConfigError> {
    if !given.starts_with(b"-----BEGIN") && !given.windows(11).any(|window| window == b"\n-----BEGIN") {
        return Ok(vec![CertificateDer::from(given.to_vec())]);
    }
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(given).collect();
    read.map_err(|error| HttpConfigError::Certificate(error.into()))
}
