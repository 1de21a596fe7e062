//! Refuses writes that another site's page has sent with this browser's cookies.
//!
//! No token in the forms: it would need a session, and the application has its own or none. Browsers say by themselves where a
//! request comes from. `Sec-Fetch-Site` compares the page's origin with the request's in the browser, before any proxy, so a proxy that
//! rewrites `Host` changes nothing about it. Browsers send it over https and to localhost. Elsewhere `Origin` is left, which has to be
//! compared with the address that the browser sees: `Host`, or the configured origins if a proxy rewrites that. `X-Forwarded-Host` is not
//! read: whoever could set it could set `Host`, and two sources of one truth differ some day.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused, as a text for the person whose browser sent it.
pub(crate) type Refusal = String;

/// Checks a request that may change something. `origins` are those under which browsers see the dashboard; if there are none, `Host` is.
pub(crate) fn check(parts: &Parts, origins: &[String]) -> Result<(), Refusal> {
    if [Method::GET, Method::HEAD].contains(&parts.method) {
        return Ok(());
    }
    let headers = &parts.headers;
    let (site, origin) = (text(headers, &SEC_FETCH_SITE)?, text(headers, &ORIGIN)?);
    match (site, origin) {
        (Some(site), _) if !["same-origin", "none"].contains(&site) => {
            Err(format!("it comes from a page of another site (Sec-Fetch-Site: {site})"))
        }
        (_, Some(origin)) if !origins.is_empty() => {
            match origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
                true => Ok(()),
                false => {
                    Err(format!("it comes from {origin}, and this dashboard is configured for {}", origins.join(", ")))
                }
            }
        }
        (Some(_), _) => Ok(()),
        (None, Some(origin)) => {
            let host = text(headers, &HOST)?.or(parts.uri.authority().map(|authority| authority.as_str()));
            match origin.split_once("://").filter(|(_, at)| host.is_some_and(|host| host.eq_ignore_ascii_case(at))) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "it comes from {origin}, but was sent to {}: if a proxy rewrites Host, configure the dashboard's origin",
                    host.unwrap_or("no host")
                )),
            }
        }
        (None, None) => Err("it says neither Sec-Fetch-Site nor Origin, as every browser does".to_owned()),
    }
}

/// The only value of a header. Two of them could be read differently by two programs.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let first = first.map(|value| value.to_str()).transpose().map_err(|_| format!("its header {name} is no text"))?;
    if second.is_some() { Err(format!("it has several headers {name}")) } else { Ok(first) }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn checked(method: &str, headers: &[(&str, &str)], origins: &[&str]) -> Result<(), Refusal> {
        let mut request = Request::builder().method(method).uri("/topics/pause");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        check(&parts, &origins.iter().map(|origin| (*origin).to_owned()).collect::<Vec<_>>())
    }

    const HOST: (&str, &str) = ("host", "ops.example.com");
    const OURS: (&str, &str) = ("origin", "https://ops.example.com");
    const OTHER: (&str, &str) = ("origin", "https://evil.example.com");

    #[test]
    fn a_browser_of_this_site_may_write() {
        let same = ("sec-fetch-site", "same-origin");
        for headers in [vec![same, OURS, HOST], vec![OURS, HOST], vec![("sec-fetch-site", "none"), HOST]] {
            assert_eq!(checked("POST", &headers, &[]), Ok(()), "{headers:?}");
        }
        // A proxy has rewritten Host.
        assert_eq!(checked("POST", &[same, OURS, ("host", "10.0.0.5:8080")], &[]), Ok(()));
        assert_eq!(checked("POST", &[OURS, ("host", "10.0.0.5:8080")], &["https://ops.example.com"]), Ok(()));
        assert_eq!(checked("GET", &[("sec-fetch-site", "cross-site"), OTHER], &[]), Ok(()), "it changes nothing");
    }

    #[test]
    fn another_site_may_not_write() {
        for headers in [
            vec![("sec-fetch-site", "cross-site"), OTHER, HOST],
            vec![("sec-fetch-site", "cross-site"), OURS, HOST],
            vec![("sec-fetch-site", "same-site"), OTHER, HOST],
            vec![OTHER, HOST],
            vec![("origin", "null"), HOST],
            vec![("origin", "https://ops.example.com.evil.com"), HOST],
            vec![OURS, ("host", "10.0.0.5:8080")],
            vec![OURS, OTHER, HOST],
            vec![OURS],
            vec![HOST],
            vec![],
        ] {
            assert!(checked("POST", &headers, &[]).is_err(), "{headers:?}");
            assert!(checked("DELETE", &headers, &[]).is_err(), "{headers:?}");
        }
    }

    #[test]
    fn with_a_configured_origin_no_other_name_of_the_host_will_do() {
        let rebound = [("sec-fetch-site", "same-origin"), OTHER, ("host", "evil.example.com")];
        assert_eq!(checked("POST", &rebound, &[]), Ok(()), "an attacker's name that resolves to this address");
        assert!(checked("POST", &rebound, &["https://ops.example.com"]).is_err());
    }
}
