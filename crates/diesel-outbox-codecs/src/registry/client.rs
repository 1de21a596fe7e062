//! The requests, each bounded in time and in the size of its answer.

use std::fmt;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Method, Request, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::json;

use super::config::{Login, SchemaRegistry};
use super::error::SchemaProblem;
use super::tls;

/// Bytes of an answer: a schema of that size has tens of thousands of fields.
const ANSWER_BYTES_MAX: usize = 4_000_000;

/// Characters of an answer that an error shows.
const ANSWER_SHOWN_CHARS_MAX: usize = 300;

const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";

// The codes of Confluent's interface.
const SUBJECT_NOT_FOUND: u32 = 40_401;
const SCHEMA_NOT_FOUND: u32 = 40_403;

/// Asks one registry.
pub(crate) struct Client {
    http: reqwest::Client,
    url: Url,
    login: SchemaRegistry,
    timeout: Duration,
}

/// An answer, read whole.
struct Answer {
    status: StatusCode,
    body: String,
}

#[derive(Deserialize)]
struct Registered {
    id: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    /// Missing if it was asked for by its id.
    #[serde(default)]
    id: u32,
    schema: String,
    #[serde(default)]
    schema_type: Option<String>,
    #[serde(default)]
    references: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(default)]
    error_code: u32,
    #[serde(default)]
    message: String,
}

impl Client {
    pub(crate) fn new(registry: &SchemaRegistry) -> Result<Self, SchemaProblem> {
        let wrong = |reason: String| SchemaProblem::Configuration { reason };
        let url = Url::parse(&registry.url).map_err(|error| wrong(format!("its address is no URL: {error}")))?;
        if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
            return Err(wrong("its address must begin with http:// or https:// and have a host".to_owned()));
        }
        let tls = tls::config(&registry.certificates, url.scheme() == "https");
        let tls = tls.map_err(|error| wrong(format!("TLS cannot be set up: {error}")))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            // A redirect would take the login elsewhere, and the environment must not decide where it goes.
            .redirect(Policy::none())
            .no_proxy()
            .timeout(registry.timeout)
            // Requests are rare, and each blocking call has a runtime of its own, with which its connections end.
            .pool_max_idle_per_host(0)
            .build();
        let http = http.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { http, url, login: registry.clone(), timeout: registry.timeout })
    }

    /// Registers a schema, unless the subject has it. Returns its id.
    pub(crate) async fn register(
        &self,
        subject: &str,
        message: &'static str,
        schema: &str,
    ) -> Result<u32, SchemaProblem> {
        let url = self.path(&["subjects", subject, "versions"])?;
        let answer = self.ask(Method::POST, url, Some(schema)).await?;
        let reason = answer.refusal().message;
        match answer.status.as_u16() {
            409 => Err(SchemaProblem::Incompatible { subject: subject.to_owned(), message, reason }),
            422 => Err(SchemaProblem::InvalidSchema { message, error: reason }),
            _ => answer.parsed::<Registered>(&format!("the subject {subject:?}")).map(|registered| registered.id),
        }
    }

    /// The id of a schema that the subject has.
    pub(crate) async fn look_up(
        &self,
        subject: &str,
        message: &'static str,
        schema: &str,
    ) -> Result<u32, SchemaProblem> {
        let url = self.path(&["subjects", subject])?;
        let answer = self.ask(Method::POST, url, Some(schema)).await?;
        let owned = || subject.to_owned();
        match (answer.status.as_u16(), answer.refusal().error_code) {
            (404, SUBJECT_NOT_FOUND) => Err(SchemaProblem::UnknownSubject { subject: owned(), message }),
            (404, SCHEMA_NOT_FOUND) => Err(SchemaProblem::UnknownSchema { subject: owned(), message }),
            (422, _) => Err(SchemaProblem::InvalidSchema { message, error: answer.refusal().message }),
            _ => answer.parsed::<Registered>(&format!("the subject {subject:?}")).map(|registered| registered.id),
        }
    }

    /// The schema of an id.
    pub(crate) async fn by_id(&self, id: u32) -> Result<String, SchemaProblem> {
        let answer = self.ask(Method::GET, self.path(&["schemas", "ids", &id.to_string()])?, None).await?;
        if answer.status == StatusCode::NOT_FOUND && answer.refusal().error_code == SCHEMA_NOT_FOUND {
            return Err(SchemaProblem::UnknownId { id });
        }
        answer.parsed::<Stored>(&format!("the schema {id}"))?.avro(id)
    }

    /// The latest schemas of a subject, each with its id. Left out are those that are not of Avro, or do not stand alone.
    pub(crate) async fn versions(&self, subject: &str, max: usize) -> Result<Vec<(u32, String)>, SchemaProblem> {
        let about = format!("the versions of the subject {subject:?}");
        let answer = self.ask(Method::GET, self.path(&["subjects", subject, "versions"])?, None).await?;
        let mut versions: Vec<u32> = answer.parsed(&about)?;
        versions.sort_unstable();
        let mut schemas = Vec::new();
        for version in versions.into_iter().rev().take(max) {
            let url = self.path(&["subjects", subject, "versions", &version.to_string()])?;
            let stored: Stored = self.ask(Method::GET, url, None).await?.parsed(&about)?;
            if let Ok(schema) = stored.avro(stored.id) {
                schemas.push((stored.id, schema));
            }
        }
        Ok(schemas)
    }

    /// A path below that of the registry.
    fn path(&self, segments: &[&str]) -> Result<Url, SchemaProblem> {
        let mut url = self.url.clone();
        match url.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().extend(segments);
            }
            Err(()) => return Err(SchemaProblem::Configuration { reason: "its URL has no path".to_owned() }),
        }
        Ok(url)
    }

    async fn ask(&self, method: Method, mut url: Url, schema: Option<&str>) -> Result<Answer, SchemaProblem> {
        if schema.is_some() {
            // A schema that somebody registered by hand has its members in another order.
            url.set_query(Some("normalize=true"));
        }
        let mut request = self.http.request(method, url).header(ACCEPT, MEDIA_TYPE);
        request = match &self.login.login {
            Login::None => request,
            Login::Basic { user, password } => request.basic_auth(user, Some(password)),
            Login::Bearer { token } => request.bearer_auth(token),
        };
        if let Some(schema) = schema {
            request = request.header(CONTENT_TYPE, MEDIA_TYPE).body(json!({ "schema": schema }).to_string());
        }
        let request = request.build().map_err(|error| SchemaProblem::Configuration { reason: reason(&error) })?;
        let answer = self.answer(request).await?;
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(SchemaProblem::LoginRefused { registry: self.host(), status: answer.status.as_u16() })
            }
            status if status.is_server_error() => {
                let error = format!("status {}: {}", status.as_u16(), shown(&answer.body));
                Err(SchemaProblem::Away { registry: self.host(), error })
            }
            _ => Ok(answer),
        }
    }

    async fn answer(&self, request: Request) -> Result<Answer, SchemaProblem> {
        let away = |error: reqwest::Error| {
            let error = match error.is_timeout() {
                true => format!("no answer within {:?}", self.timeout),
                false => reason(&error),
            };
            SchemaProblem::Away { registry: self.host(), error }
        };
        let mut response: Response = self.http.execute(request).await.map_err(away)?;
        let (status, mut body) = (response.status(), Vec::new());
        while let Some(chunk) = response.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                let reason = format!("more than {ANSWER_BYTES_MAX} bytes");
                return Err(SchemaProblem::Answer { about: "a schema".to_owned(), status: status.as_u16(), reason });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Host and port: the rest of a URL may hold a password.
    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

impl Stored {
    /// The schema, if it is one of Avro that stands alone.
    fn avro(&self, id: u32) -> Result<String, SchemaProblem> {
        let unreadable = |error: &str| Err(SchemaProblem::UnreadableSchema { id, error: error.to_owned() });
        match self.schema_type.as_deref() {
            Some(other) if other != "AVRO" => unreadable(&format!("it is of the type {other}")),
            _ if !self.references.is_empty() => unreadable("it has references to other schemas"),
            _ => Ok(self.schema.clone()),
        }
    }
}

impl Answer {
    /// What a refusal says; empty if this is none.
    fn refusal(&self) -> Refusal {
        if self.status.is_success() {
            return Refusal::default();
        }
        serde_json::from_str(&self.body).unwrap_or_else(|_| Refusal { error_code: 0, message: shown(&self.body) })
    }

    fn parsed<T: for<'de> Deserialize<'de>>(&self, about: &str) -> Result<T, SchemaProblem> {
        let other = |reason| SchemaProblem::Answer { about: about.to_owned(), status: self.status.as_u16(), reason };
        if !self.status.is_success() {
            return Err(other(self.refusal().message));
        }
        serde_json::from_str(&self.body).map_err(|error| other(format!("{error}, in {}", shown(&self.body))))
    }
}

fn shown(body: &str) -> String {
    body.chars().take(ANSWER_SHOWN_CHARS_MAX).collect()
}

/// The error with its sources and without its URL, which may hold a password.
fn reason(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    if text.is_empty() { "the request failed".to_owned() } else { text }
}

// A URL may hold a password.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("registry", &self.host()).finish_non_exhaustive()
    }
}
