use std::error::Error;

/// Why an HTTP transport cannot be made. No URL and no value of a header stands in it: they hold secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpConfigError {
    /// Nothing says where messages go.
    #[error("no target: say where messages go with .topic(.., HttpTarget::new(..)) or .default_target(..)")]
    NoTarget,
    /// A URL cannot be used.
    #[error("the URL of {target} cannot be used: {problem}")]
    Url {
        /// Whose: a topic's, or that of every topic.
        target: String,
        /// What is wrong with it, and what to do.
        problem: &'static str,
    },
    /// A method, or a header's name or value, is none.
    #[error("{target}: the {what} {name:?} is none that HTTP knows")]
    InvalidValue {
        /// Whose: a topic's, or that of every topic.
        target: String,
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A header that the transport sets itself.
    #[error("{target}: the header {name:?} is set by the transport itself; leave it out")]
    ReservedHeader {
        /// Whose: a topic's, or that of every topic.
        target: String,
        /// The header.
        name: String,
    },
    /// A signing secret is not of the form that standard-webhooks has.
    #[error("{target}: a signing secret is \"whsec_\" followed by base64 of 24 to 64 bytes")]
    InvalidSecret {
        /// Whose: a topic's, or that of every topic.
        target: String,
    },
    /// Messages bring their URLs, and nobody said where they may lead.
    #[error(
        "a target takes its URLs from messages: say .deny_private_addresses(), or .allow_private_addresses() where \
         everybody who can write such a URL may reach your network"
    )]
    PrivateAddressesUndecided,
    /// With this, nothing would ever be sent.
    #[error("{name} is 0: nothing would ever be sent; give more")]
    Zero {
        /// The setting.
        name: &'static str,
    },
    /// A certificate cannot be read.
    #[error("a root certificate is no PEM or DER certificate: {0}")]
    Certificate(#[source] Box<dyn Error + Send + Sync>),
    /// The certificates that the system trusts cannot be read.
    #[error("the system's trusted certificates cannot be read (is the package ca-certificates installed?): {0}")]
    SystemRoots(#[source] Box<dyn Error + Send + Sync>),
    /// The client could not be made.
    #[error("the HTTP client could not be made: {0}")]
    Client(#[source] Box<dyn Error + Send + Sync>),
}
