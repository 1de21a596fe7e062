//! The client: rustls with ring, no redirects, no proxy from the environment.

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
    /// Whether any URL is https.
    pub(super) needs_roots: bool,
    pub(super) certificates: &'a [Vec<u8>],
    pub(super) user_agent: &'a str,
    pub(super) connect_timeout: Duration,
    pub(super) idle_max: usize,
}

pub(super) fn new(config: &ClientConfig<'_>) -> Result<Client, HttpConfigError> {
    let mut builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls(config)?)
        // A redirect would send the message and its credentials to a place that nobody configured.
        .redirect(Policy::none())
        // The environment must not decide where messages go, and a proxy would resolve names past the address filter.
        .no_proxy()
        // Other crates may turn on HTTP/2. One connection must carry one request, because the in-flight limit counts
        // so.
        .http1_only()
        // The relay decides on retries. Without them the client need not copy each request, either.
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
        // Not the system's certificates: a machine without any would refuse a configuration that needs none.
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    let mut extra = Vec::new();
    for given in config.certificates {
        extra.extend(certificates(given)?);
    }
    // Checked here, where the error can name the bad certificate.
    let mut store = rustls::RootCertStore::empty();
    for certificate in &extra {
        store.add(certificate.clone()).map_err(|error| HttpConfigError::Certificate(error.into()))?;
    }
    let verifier =
        Verifier::new_with_extra_roots(extra, provider).map_err(|error| HttpConfigError::SystemRoots(error.into()))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The certificates of a PEM file, or the one DER certificate.
fn certificates(given: &[u8]) -> Result<Vec<CertificateDer<'static>>, HttpConfigError> {
    if !given.starts_with(b"-----BEGIN") && !given.windows(11).any(|window| window == b"\n-----BEGIN") {
        return Ok(vec![CertificateDer::from(given.to_vec())]);
    }
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(given).collect();
    read.map_err(|error| HttpConfigError::Certificate(error.into()))
}
