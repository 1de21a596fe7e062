//! How instants are written.

use std::time::SystemTime;

use serde::Serializer;

/// RFC 3339 in UTC, to the millisecond.
pub(crate) fn shown(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at.max(SystemTime::UNIX_EPOCH)).to_string()
}

pub(crate) fn instant<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(*at))
}

pub(crate) fn instant_or_none<S: Serializer>(at: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => instant(at, serializer),
        None => serializer.serialize_none(),
    }
}
