use std::error::Error;

/// Why an HTTP transport cannot be built. The text shows no URL and no header value, because they hold secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpConfigError {
    /// No target says where messages go.
    #[error("no target: say where messages go with .topic(.., HttpTarget::new(..)) or .default_target(..)")]
    NoTarget,
    /// A URL cannot be used.
    #[error("the URL of {target} cannot be used: {problem}")]
    Url {
        /// The target: a topic's, or the one of every topic.
        target: String,
        /// What is wrong with it, and what to do.
        problem: &'static str,
    },
    /// A method, a header name or a header value is invalid.
    #[error("{target}: the {what} {name:?} is not valid in HTTP")]
    InvalidValue {
        /// The target: a topic's, or the one of every topic.
        target: String,
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A header that the transport sets itself.
    #[error("{target}: the header {name:?} is set by the transport itself; leave it out")]
    ReservedHeader {
        /// The target: a topic's, or the one of every topic.
        target: String,
        /// The header.
        name: String,
    },
    /// A signing secret does not have the form of standard-webhooks.
    #[error("{target}: a signing secret is \"whsec_\" followed by base64 of 24 to 64 bytes")]
    InvalidSecret {
        /// The target: a topic's, or the one of every topic.
        target: String,
    },
    /// Messages bring their URLs, and the builder does not say which addresses are allowed.
    #[error(
        "a target takes its URLs from messages: call .deny_private_addresses(), or .allow_private_addresses() if \
         everybody who can write such a URL may reach your network"
    )]
    PrivateAddressesUndecided,
    /// A limit of 0 would block every message.
    #[error("{name} is 0, so nothing would ever be sent; set it to 1 or more")]
    Zero {
        /// The setting.
        name: &'static str,
    },
    /// A root certificate cannot be read.
    #[error("a root certificate is neither PEM nor DER: {0}")]
    Certificate(Box<dyn Error + Send + Sync>),
    /// The certificates that the system trusts cannot be read.
    #[error("the system's trusted certificates cannot be read (is the package ca-certificates installed?): {0}")]
    SystemRoots(Box<dyn Error + Send + Sync>),
    /// The client could not be built.
    #[error("the HTTP client could not be built: {0}")]
    Client(Box<dyn Error + Send + Sync>),
}
