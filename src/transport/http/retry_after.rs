//! `Retry-After`: seconds, or a date.

use std::time::{Duration, SystemTime};

/// How long a receiver asks its senders to wait; `None` if the value has neither form. A date in the past asks for no
/// pause.
pub(super) fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
        // More digits than a u64 holds mean a very long time, which the relay bounds.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_nothing_else() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let parsed = |value| parse(value, now).map(|wait| wait.as_secs());
        assert_eq!(parsed("120"), Some(120));
        assert_eq!(parsed(" 0 "), Some(0));
        assert_eq!(parsed("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(parsed("Sun, 06 Nov 1994 08:49:47 GMT"), Some(10));
        assert_eq!(parsed("Sunday, 06-Nov-94 08:49:47 GMT"), Some(10), "the form of RFC 850");
        assert_eq!(parsed("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0), "past");
        for neither in ["", "-1", "1.5", "soon", "1e3", "+5"] {
            assert_eq!(parsed(neither), None, "{neither:?}");
        }
    }
}
