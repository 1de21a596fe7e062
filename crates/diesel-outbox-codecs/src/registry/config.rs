use std::fmt;
use std::time::Duration;

/// The longest that one request takes by default: a registry answers in milliseconds, and a start should not hang on it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a schema registry is, and how to log in.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox_codecs::avro::SchemaRegistry;
///
/// let registry = SchemaRegistry::new("https://registry.example/apis/ccompat/v7")
///     .bearer_auth("swordfish")
///     .timeout(Duration::from_secs(5));
/// assert!(!format!("{registry:?}").contains("swordfish"));
/// ```
#[derive(Clone)]
#[must_use = "a registry is asked only by its `schemas`"]
pub struct SchemaRegistry {
    pub(super) url: String,
    pub(super) login: Login,
    pub(super) timeout: Duration,
    pub(super) certificates: Vec<Vec<u8>>,
}

#[derive(Clone)]
pub(super) enum Login {
    None,
    Basic { user: String, password: String },
    Bearer { token: String },
}

impl SchemaRegistry {
    /// The registry at `url`, without a login.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), login: Login::None, timeout: TIMEOUT, certificates: Vec::new() }
    }

    /// Logs in with a user's name and password.
    pub fn basic_auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Login::Basic { user: user.into(), password: password.into() };
        self
    }

    /// Logs in with a token.
    pub fn bearer_auth(mut self, token: impl Into<String>) -> Self {
        self.login = Login::Bearer { token: token.into() };
        self
    }

    /// The longest that one request takes; 10 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Trusts a certificate, in PEM, besides those of the system.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.push(pem.into());
        self
    }
}

// A URL may hold a password, and the login is one.
impl fmt::Debug for SchemaRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = match self.login {
            Login::None => "none",
            Login::Basic { .. } => "basic",
            Login::Bearer { .. } => "bearer",
        };
        f.debug_struct("SchemaRegistry")
            .field("login", &login)
            .field("timeout", &self.timeout)
            .field("certificates", &self.certificates.len())
            .finish_non_exhaustive()
    }
}
