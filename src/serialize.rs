//! Serializes times, bytes and headers for people and their tools.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Serialize as _, Serializer};

use crate::limits::RFC_3339_AGE_MAX;
use crate::message::Headers;

/// A duration, in seconds with a fraction.
pub(crate) fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// As [`seconds`], or null.
pub(crate) fn seconds_or_none<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

/// RFC 3339, in UTC, to the microsecond.
pub(crate) fn instant<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc_3339(*at))
}

/// As [`instant`], or null.
pub(crate) fn instant_or_none<S: Serializer>(at: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(rfc_3339).serialize(serializer)
}

/// Bytes: as text if they are UTF-8, else as `{"b64": ..}`; null for none. Headers in the database have the same form.
pub(crate) fn payload<S: Serializer>(payload: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    match payload.as_deref().map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        None => serializer.serialize_none(),
        Some((Ok(text), _)) => serializer.serialize_str(text),
        Some((Err(_), bytes)) => serializer.collect_map([("b64", BASE64.encode(bytes))]),
    }
}

/// The column with the headers: as JSON, or as text if it does not hold headers.
pub(crate) fn headers<S: Serializer>(column: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match Headers::from_json(column).is_ok().then(|| serde_json::from_str::<serde_json::Value>(column)) {
        Some(Ok(value)) => value.serialize(serializer),
        _ => serializer.serialize_str(column),
    }
}

/// JSON that is stored as text, or as the text that it is if somebody wrote something else there; null for none.
pub(crate) fn json_or_none<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(text) = text else { return serializer.serialize_none() };
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value.serialize(serializer),
        Err(_) => serializer.serialize_str(text),
    }
}

/// In years of four digits from 1970 on. Only a wrong clock says another time, which becomes the nearest of them.
fn rfc_3339(at: SystemTime) -> String {
    let at = at.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + RFC_3339_AGE_MAX);
    humantime::format_rfc3339_micros(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_rfc_3339() {
        let after = |secs: u64, micros: u64| SystemTime::UNIX_EPOCH + Duration::from_micros(secs * 1_000_000 + micros);
        for (at, text) in [
            (after(0, 0), "1970-01-01T00:00:00.000000Z"),
            (after(951_782_400, 1), "2000-02-29T00:00:00.000001Z"),
            (after(1_709_251_199, 999_999), "2024-02-29T23:59:59.999999Z"),
            (after(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z"),
            (after(253_402_300_799, 0), "9999-12-31T23:59:59.000000Z"),
            (after(253_402_300_800, 0), "9999-12-31T23:59:59.000000Z"),
            (SystemTime::UNIX_EPOCH - Duration::from_secs(1), "1970-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc_3339(at), text);
        }
    }
}
