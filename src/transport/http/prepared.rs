//! Targets as they are used: names and values are checked, and what is the same for every message is made once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};

use super::address_filter;
use super::error::HttpConfigError;
use super::failure::{HttpFailure, Scope};
use super::response::Success;
use super::signature::Signer;
use super::target::{HttpTarget, UrlCallback, UrlSource};
use super::url::{self, Origin};
use crate::clock::system_now;
use crate::message::Envelope;
use crate::transport::{FailureClass, header};

const MESSAGE_ID: HeaderName = HeaderName::from_static(header::MESSAGE_ID);
const KIND: HeaderName = HeaderName::from_static(header::KIND);
const ATTEMPT: HeaderName = HeaderName::from_static(header::ATTEMPT);
/// The topic, if the URL serves several.
const TOPIC: HeaderName = HeaderName::from_static("outbox-topic");
/// The message's key.
const KEY: HeaderName = HeaderName::from_static("outbox-key");
const CREATED_AT: HeaderName = HeaderName::from_static(header::CREATED_AT);
const DELIVER_AT: HeaderName = HeaderName::from_static(header::DELIVER_AT);
/// Marks a tombstone, which an empty body does not.
const TOMBSTONE: HeaderName = HeaderName::from_static("outbox-tombstone");
/// A request may lack some of these. A message's own header of such a name is still not sent.
const OUTBOX_HEADERS: [HeaderName; 8] = [MESSAGE_ID, KIND, ATTEMPT, TOPIC, KEY, CREATED_AT, DELIVER_AT, TOMBSTONE];
/// The suffix of a header name whose value is not plain text; the value is then base64.
const BASE64_SUFFIX: &str = "-b64";

/// Frames a request or belongs to its connection: another value would split or break the request.
const CONNECTION_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const SIGNATURE_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("webhook-id"),
    HeaderName::from_static("webhook-timestamp"),
    HeaderName::from_static("webhook-signature"),
];

/// One target.
#[derive(Debug)]
pub(super) struct PreparedTarget {
    url: PreparedUrl,
    method: Method,
    headers: HeaderMap,
    content_type: HeaderValue,
    idempotency_header: Option<HeaderName>,
    sends_created_at: bool,
    signer: Option<Signer>,
    pub(super) success: Success,
    pub(super) status_classes: HashMap<u16, FailureClass>,
    health_url: Option<Url>,
    /// Set if other topics may share the URL, or if the user asked for it.
    sends_topic: bool,
}

enum PreparedUrl {
    Fixed(Url, Origin),
    Callback(UrlCallback),
    Header(String),
}

/// All targets, and what they share.
#[derive(Debug)]
pub(super) struct Targets {
    named: HashMap<Arc<str>, Arc<PreparedTarget>>,
    every: Option<Arc<PreparedTarget>>,
    origins: HashSet<Origin>,
    has_message_urls: bool,
}

impl Targets {
    /// `None` if there are no targets.
    pub(super) fn new(mut named: HashMap<Arc<str>, PreparedTarget>, every: Option<PreparedTarget>) -> Option<Self> {
        let mut of_url: HashMap<Url, usize> = HashMap::new();
        for (url, _) in named.values().chain(&every).filter_map(PreparedTarget::fixed) {
            *of_url.entry(url.clone()).or_default() += 1;
        }
        for target in named.values_mut() {
            target.sends_topic |= target.fixed().is_none_or(|(url, _)| of_url[url] > 1);
        }
        let every = every.map(|target| Arc::new(PreparedTarget { sends_topic: true, ..target }));
        let named: HashMap<_, _> = named.into_iter().map(|(topic, target)| (topic, Arc::new(target))).collect();
        let all = || named.values().chain(&every);
        let is_empty = all().next().is_none();
        let origins = all().filter_map(|target| target.origin()).collect();
        let has_message_urls = all().any(|target| target.fixed().is_none());
        (!is_empty).then_some(Self { named, every, origins, has_message_urls })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<PreparedTarget>> {
        self.named.values().chain(&self.every)
    }

    pub(super) fn of(&self, topic: &Arc<str>) -> Result<&Arc<PreparedTarget>, HttpFailure> {
        let target = self.named.get(topic).or(self.every.as_ref());
        target.ok_or_else(|| HttpFailure::NoTarget { topic: Arc::clone(topic) })
    }

    /// Whether messages bring their own URLs.
    pub(super) fn has_message_urls(&self) -> bool {
        self.has_message_urls
    }

    pub(super) fn needs_tls(&self) -> bool {
        self.has_message_urls() || self.origins.iter().any(url::is_tls)
    }

    /// How many hosts are known in advance.
    pub(super) fn hosts(&self) -> usize {
        self.origins.len()
    }

    /// The only host, if there is just one.
    pub(super) fn single_host(&self) -> Option<&Origin> {
        if self.has_message_urls() || self.origins.len() != 1 { None } else { self.origins.iter().next() }
    }

    pub(super) fn scope(&self, target: &PreparedTarget) -> Scope {
        match target.origin() {
            None => Scope::Message,
            Some(_) if self.single_host().is_some() => Scope::Transport,
            Some(_) => Scope::Topic,
        }
    }

    /// A probe for each target of the only host.
    pub(super) fn probes(&self) -> Vec<Request> {
        // One for each URL: topics often share one.
        let mut seen = HashSet::new();
        let probes = self.all().filter_map(|target| target.probe());
        probes.filter(|probe| seen.insert(probe.url().clone())).collect()
    }
}

impl PreparedTarget {
    pub(super) fn new(name: &str, target: HttpTarget, allows_private: bool) -> Result<Self, HttpConfigError> {
        let owner = || name.to_owned();
        let illegal = |what, name: &str| HttpConfigError::InvalidValue { target: owner(), what, name: name.to_owned() };
        let parsed = |text: &str| {
            let (url, origin) =
                url::parse(text).map_err(|problem| HttpConfigError::Url { target: owner(), problem })?;
            match url::address(&url) {
                Some(address) if !allows_private && !address_filter::is_public(address) => Err(HttpConfigError::Url {
                    target: owner(),
                    problem: "its address is private, and those are denied",
                }),
                _ => Ok((url, origin)),
            }
        };
        let header_name = |name: &str| HeaderName::try_from(name).map_err(|_| illegal("header", name));
        let own_header = |name: &str| match header_name(name)? {
            header if is_reserved(&header) => {
                Err(HttpConfigError::ReservedHeader { target: owner(), name: name.to_owned() })
            }
            header => Ok(header),
        };
        let url = match target.url {
            UrlSource::Fixed(text) => parsed(&text).map(|(url, origin)| PreparedUrl::Fixed(url, origin))?,
            UrlSource::Callback(find) => PreparedUrl::Callback(find),
            UrlSource::Header(name) => PreparedUrl::Header(name),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            let header = own_header(name)?;
            let mut value = HeaderValue::try_from(value).map_err(|_| illegal("value of the header", name))?;
            value.set_sensitive(true);
            headers.append(header, value);
        }
        let idempotency_header = target.idempotency_header.as_deref().map(own_header).transpose()?;
        let health_url = target.health_url.as_deref().map(parsed).transpose()?.map(|(url, _)| url);
        let signer = Signer::new(&target.secrets).map_err(|_| HttpConfigError::InvalidSecret { target: owner() })?;
        Ok(Self {
            url,
            method: Method::from_bytes(target.method.as_bytes()).map_err(|_| illegal("method", &target.method))?,
            headers,
            content_type: HeaderValue::try_from(&target.content_type)
                .map_err(|_| illegal("content type", &target.content_type))?,
            idempotency_header,
            sends_created_at: target.sends_created_at,
            signer,
            success: target.success,
            status_classes: target.status_classes.into_iter().collect(),
            health_url,
            sends_topic: target.sends_topic,
        })
    }

    /// The URL of all messages, if there is just one.
    fn fixed(&self) -> Option<(&Url, &Origin)> {
        match &self.url {
            PreparedUrl::Fixed(url, origin) => Some((url, origin)),
            PreparedUrl::Callback(_) | PreparedUrl::Header(_) => None,
        }
    }

    /// The host of all messages, if there is just one.
    fn origin(&self) -> Option<Origin> {
        self.fixed().map(|(_, origin)| Arc::clone(origin))
    }

    fn probe(&self) -> Option<Request> {
        let (url, _) = self.fixed()?;
        let mut probe = Request::new(Method::HEAD, self.health_url.as_ref().unwrap_or(url).clone());
        *probe.headers_mut() = self.headers.clone();
        Some(probe)
    }

    /// The URL of a message.
    pub(super) fn url_of(&self, envelope: &Envelope) -> Result<(Url, Origin), HttpFailure> {
        let found = match &self.url {
            PreparedUrl::Fixed(url, origin) => return Ok((url.clone(), Arc::clone(origin))),
            PreparedUrl::Callback(find) => find(envelope),
            PreparedUrl::Header(name) => {
                let value = envelope.headers.get(name);
                value.and_then(|value| std::str::from_utf8(value).ok()).map(str::to_owned)
            }
        };
        let found = found.ok_or(HttpFailure::NoUrl)?;
        url::parse(&found).map_err(|problem| HttpFailure::IllegalUrl { problem })
    }

    /// Whether the request uses the message's own content type.
    pub(super) fn uses_content_type_of(&self, envelope: &Envelope) -> bool {
        !self.headers.contains_key(CONTENT_TYPE)
            && envelope.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()))
    }

    /// The request for a message. Each optional header costs both sides a twentieth of a small request. So headers that
    /// are the same for every message, or that repeat another one, are left out.
    pub(super) fn request(&self, envelope: Envelope, url: Url) -> Result<Request, HttpFailure> {
        let mut request = Request::new(self.method.clone(), url);
        let mut headers = HeaderMap::with_capacity(8 + envelope.headers.len());
        let id = envelope.message_id.to_string();
        let id_value =
            HeaderValue::from_str(&id).map_err(|_| HttpFailure::IllegalHeader { name: MESSAGE_ID.to_string() })?;
        if !envelope.kind.is_empty() {
            insert(&mut headers, KIND, envelope.kind)?;
        }
        if envelope.attempt > 1 {
            headers.insert(ATTEMPT, HeaderValue::from(envelope.attempt));
        }
        for (name, value) in envelope.headers.iter() {
            if matches!(&self.url, PreparedUrl::Header(url) if url.eq_ignore_ascii_case(name)) {
                continue;
            }
            let (name, value) = encode_header(name, value)?;
            // A row written by hand may have such headers.
            if !OUTBOX_HEADERS.contains(&name) {
                headers.append(name, value);
            }
        }
        headers.entry(CONTENT_TYPE).or_insert_with(|| self.content_type.clone());
        for name in self.headers.keys() {
            headers.remove(name);
        }
        headers.extend(self.headers.clone());
        if self.sends_topic {
            insert(&mut headers, TOPIC, &*envelope.topic)?;
        }
        if let Some(key) = envelope.key {
            insert(&mut headers, KEY, key)?;
        }
        if self.sends_created_at {
            headers.insert(CREATED_AT, HeaderValue::from(header::millis(envelope.created_at)));
        }
        if let Some(at) = envelope.deliver_at {
            headers.insert(DELIVER_AT, HeaderValue::from(header::millis(at)));
        }
        if envelope.payload.is_none() {
            headers.insert(TOMBSTONE, HeaderValue::from_static("1"));
        }
        headers.insert(self.idempotency_header.clone().unwrap_or(MESSAGE_ID), id_value);
        let payload = envelope.payload.unwrap_or_default();
        if let Some(signer) = &self.signer {
            let now = system_now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let timestamp = now.as_secs().to_string();
            let signature = signer.signature(&id, &timestamp, &payload);
            for (name, value) in SIGNATURE_HEADERS.iter().zip([&id, &timestamp, &signature]) {
                insert(&mut headers, name.clone(), value.as_str())?;
            }
        }
        *request.headers_mut() = headers;
        *request.body_mut() = Some(payload.into());
        Ok(request)
    }
}

fn is_reserved(name: &HeaderName) -> bool {
    CONNECTION_HEADERS.contains(&name.as_str())
        || name.as_str().starts_with("outbox-")
        || SIGNATURE_HEADERS.contains(name)
}

/// Sets one of the outbox's own headers and replaces any other value.
fn insert<V>(headers: &mut HeaderMap, name: HeaderName, value: V) -> Result<(), HttpFailure>
where
    V: AsRef<[u8]>,
    HeaderValue: TryFrom<V>,
{
    let (name, value) = encode_value(name, value)?;
    headers.insert(name, value);
    Ok(())
}

/// A message's header in HTTP's form.
fn encode_header(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), HttpFailure> {
    match HeaderName::try_from(name) {
        Ok(header) if !CONNECTION_HEADERS.contains(&header.as_str()) => encode_value(header, value),
        _ => Err(HttpFailure::IllegalHeader { name: name.to_owned() }),
    }
}

/// A value that is not plain text is sent as base64, and the name gets the suffix.
fn encode_value<V>(name: HeaderName, value: V) -> Result<(HeaderName, HeaderValue), HttpFailure>
where
    V: AsRef<[u8]>,
    HeaderValue: TryFrom<V>,
{
    let bytes = value.as_ref();
    // HTTP strips spaces at the ends of a value.
    let is_plain = bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ');
    let illegal = |name: &HeaderName| HttpFailure::IllegalHeader { name: name.to_string() };
    if is_plain {
        let value = HeaderValue::try_from(value).map_err(|_| illegal(&name))?;
        return Ok((name, value));
    }
    let value = HeaderValue::from_str(&BASE64.encode(bytes)).map_err(|_| illegal(&name))?;
    let base64_name = HeaderName::try_from(format!("{name}{BASE64_SUFFIX}")).map_err(|_| illegal(&name))?;
    Ok((base64_name, value))
}

impl std::fmt::Debug for PreparedUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(_, origin) => f.debug_tuple("Fixed").field(origin).finish(),
            Self::Callback(_) => f.write_str("Callback"),
            Self::Header(name) => f.debug_tuple("Header").field(name).finish(),
        }
    }
}
