//! The style sheet, the script and the icon. They are part of the program, so none can be missing.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::limits::ASSET_AGE_SECONDS;

const CSS: &str = include_str!("style.css");
const JS: &str = include_str!("refresh.js");
const SVG: &str = include_str!("icon.svg");

/// A browser keeps what it has under one URL, so the pages add this: it is another one when the content is.
pub(crate) const VERSION: u64 = hash(CSS) ^ hash(JS) ^ hash(SVG);

pub(crate) const STYLE: &str = "/assets/style.css";
pub(crate) const SCRIPT: &str = "/assets/refresh.js";
pub(crate) const ICON: &str = "/assets/icon.svg";

pub(crate) async fn style() -> Response {
    asset("text/css; charset=utf-8", CSS)
}

pub(crate) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", JS)
}

pub(crate) async fn icon() -> Response {
    asset("image/svg+xml", SVG)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    // Private: whoever has no access has none to this either.
    let age = format!("private, max-age={ASSET_AGE_SECONDS}, immutable");
    let age = HeaderValue::try_from(age).unwrap_or_else(|error| unreachable!("a number is a header: {error}"));
    ([(CONTENT_TYPE, HeaderValue::from_static(kind)), (CACHE_CONTROL, age)], text).into_response()
}

/// FNV-1a.
const fn hash(text: &str) -> u64 {
    let (bytes, mut hash, mut at) = (text.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}
