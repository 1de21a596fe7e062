//! URLs that a message may go to.

use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Url;

/// Scheme, host and port: the part of a URL that may be shown.
pub(super) type Origin = Arc<str>;

pub(super) fn parse(text: &str) -> Result<(Url, Origin), &'static str> {
    let mut url = Url::parse(text).map_err(|_| "it is not an absolute URL")?;
    // The fragment is not sent, so URLs that differ only there are the same.
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https") {
        return Err("its scheme is neither http nor https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user or a password; put them into a header");
    }
    let origin = url.origin().ascii_serialization().into();
    Ok((url, origin))
}

pub(super) fn is_tls(origin: &Origin) -> bool {
    origin.starts_with("https:")
}

/// The IP address in a URL without a host name. It is never resolved, so the resolver's address check does not see it.
pub(super) fn address(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_are_accepted_and_only_the_origin_is_shown() {
        let (_, origin) = parse("https://Shop.Example:8443/hooks?token=swordfish#x").unwrap();
        assert_eq!(&*origin, "https://shop.example:8443");
        assert_eq!(&*parse("http://shop.example:80/").unwrap().1, "http://shop.example");
        for refused in ["", "shop.example/hooks", "/hooks", "ftp://shop.example", "file:///etc/passwd", "https://"] {
            assert!(parse(refused).is_err(), "{refused:?}");
        }
        assert!(parse("https://user:swordfish@shop.example").unwrap_err().contains("header"));
    }

    #[test]
    fn addresses_are_recognized_in_every_form() {
        for of_this_machine in
            ["http://127.0.0.1", "http://2130706433", "http://0x7f.1", "http://[::1]:80", "http://0177.1"]
        {
            let (url, _) = parse(of_this_machine).unwrap();
            assert!(address(&url).is_some_and(|address| address.is_loopback()), "{of_this_machine}");
        }
        assert_eq!(address(&parse("http://localhost").unwrap().0), None);
    }
}
