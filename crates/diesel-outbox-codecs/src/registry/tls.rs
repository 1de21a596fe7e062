//! TLS as the library's HTTP transport has it: rustls with ring, and the system's certificates.

use std::error::Error;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;

pub(super) fn config(certificates: &[Vec<u8>], is_used: bool) -> Result<ClientConfig, Box<dyn Error + Send + Sync>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    if !is_used {
        // Not the system's certificates: a machine without any would refuse a configuration that needs none.
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    let mut extra = Vec::new();
    for pem in certificates {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            extra.push(certificate?);
        }
    }
    let verifier = Verifier::new_with_extra_roots(extra, provider)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}
