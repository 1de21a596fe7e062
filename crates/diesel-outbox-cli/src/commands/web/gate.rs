//! Which requests reach the dashboard.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, COOKIE, HOST, LOCATION, SET_COOKIE, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use super::token::Token;

/// In the extensions of each request that may go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted;

/// What a request needs.
#[derive(Debug)]
pub(super) struct Gate {
    token: Option<Token>,
    origins: Vec<String>,
    /// The name of the cookie. Browsers send the cookies of a host to all of its ports.
    cookie: String,
    /// Where in the host browsers send the cookie.
    path: String,
}

impl Gate {
    pub(super) fn new(port: u16, token: Option<Token>, origins: Vec<String>, path: &str) -> Self {
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Self { token, origins, cookie: format!("outbox_{port}"), path }
    }

    /// A router that only admitted requests reach.
    pub(super) fn around(self, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::new(self), check))
    }

    /// A name of another site may resolve to this address, and a browser then takes this dashboard for a part of that site. Addresses
    /// and `localhost` are nobody's names.
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
        let host = host.host();
        let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let is_origin = |origin: &String| {
            let authority = origin.split_once("://").and_then(|(_, authority)| authority.parse::<Authority>().ok());
            authority.is_some_and(|authority| authority.host().eq_ignore_ascii_case(host))
        };
        is_address || host.eq_ignore_ascii_case("localhost") || self.origins.iter().any(is_origin)
    }

    fn has_cookie(&self, token: &Token, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).any(|(_, value)| token.is(value))
    }

    /// Keeps the token as a cookie, and takes it out of the address. A relative link stays right behind a proxy.
    fn keep_token(&self, token: &Token, query: &str) -> Response {
        let rest = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != TOKEN);
        let rest = form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
        let is_https = !self.origins.is_empty() && self.origins.iter().all(|origin| origin.starts_with("https://"));
        let secure = if is_https { "; Secure" } else { "" };
        // Lax: somebody may follow a link from a chat. Other sites cannot send forms with it.
        let cookie = format!("{}={}; Path={}; HttpOnly; SameSite=Lax{secure}", self.cookie, token.as_str(), self.path);
        let headers = [(SET_COOKIE, cookie), (LOCATION, format!("?{rest}")), (CACHE_CONTROL, "no-store".to_owned())];
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}

/// The name of the token in a query.
const TOKEN: &str = "token";

async fn check(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    if !gate.is_own_host(request.headers()) {
        let text = "This dashboard does not answer to this host name. If it is right, start it with --origin and this address.";
        return refuse(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if let Some(token) = &gate.token {
        let query = request.uri().query().unwrap_or_default();
        let given = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == TOKEN).map(|(_, value)| value);
        match given {
            Some(given) if token.is(&given) => return gate.keep_token(token, query),
            None if gate.has_cookie(token, request.headers()) => {}
            _ => {
                let text = "This dashboard needs its token: open the address that `outbox web` has printed, with ?token= at its end.";
                return refuse(StatusCode::FORBIDDEN, text);
            }
        }
    }
    request.extensions_mut().insert(Admitted);
    next.run(request).await
}

fn refuse(status: StatusCode, text: &'static str) -> Response {
    (status, [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "no-store")], format!("{text}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(8090, None, vec!["https://Ops.example.com".to_owned()], "")
    }

    fn headers(name: axum::http::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), axum::http::HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn hosts_are_addresses_and_the_configured_names() {
        for own in
            ["127.0.0.1:8090", "10.0.0.5", "[::1]:8090", "localhost:8090", "ops.example.com", "ops.example.com:443"]
        {
            assert!(gate().is_own_host(&headers(HOST, &[own])), "{own}");
        }
        for other in
            ["evil.example.com", "ops.example.com.evil.com", "127.0.0.1.evil.com:8090", "localhost.evil.com", ""]
        {
            assert!(!gate().is_own_host(&headers(HOST, &[other])), "{other}");
        }
        assert!(!gate().is_own_host(&headers(HOST, &["localhost", "evil.example.com"])), "two of them");
        assert!(!gate().is_own_host(&HeaderMap::new()), "none");
    }

    #[test]
    fn the_token_is_in_the_cookie_of_this_port() {
        let token: Token = "0123456789abcdef".parse().expect("a token");
        let has = |cookies: &[&'static str]| gate().has_cookie(&token, &headers(COOKIE, cookies));
        assert!(has(&["outbox_8090=0123456789abcdef"]) && has(&["a=b; outbox_8090=0123456789abcdef; c=d"]));
        assert!(has(&["a=b", "outbox_8090=wrong; outbox_8090=0123456789abcdef"]));
        assert!(!has(&[]) && !has(&["outbox_8091=0123456789abcdef"]) && !has(&["outbox_8090=0123456789abcdee"]));
    }

    #[test]
    fn the_token_leaves_the_address_and_the_rest_stays() {
        let token: Token = "0123456789abcdef".parse().expect("a token");
        let response = gate().keep_token(&token, "topic=a%26b&token=0123456789abcdef&state=due");
        let header = |name| response.headers()[name].to_str().expect("text");
        assert_eq!((response.status(), header(LOCATION)), (StatusCode::SEE_OTHER, "?topic=a%26b&state=due"));
        assert_eq!(header(SET_COOKIE), "outbox_8090=0123456789abcdef; Path=/; HttpOnly; SameSite=Lax; Secure");
    }
}
