//! Times and durations, as people read them.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use maud::{Markup, html};

/// An instant, and how far it is from now. Always in UTC: the logs and the database say the same.
pub(crate) fn instant(at: SystemTime, now: SystemTime) -> Markup {
    let (machine, text) = match Timestamp::try_from(at) {
        Ok(stamp) => (stamp.to_string(), stamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
        Err(_) => (String::new(), "beyond every calendar".to_owned()),
    };
    html! { time datetime=(machine) { (text) } " " span.quiet { (distance(at, now)) } }
}

/// `3 min ago`, `in 2 h`.
fn distance(at: SystemTime, now: SystemTime) -> String {
    match now.duration_since(at) {
        Ok(past) => format!("({} ago)", duration(past)),
        Err(ahead) => format!("(in {})", duration(ahead.duration())),
    }
}

/// In the largest unit that fits.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time in a form, in UTC, as browsers send it.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let time: DateTime = text.parse().ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().into())
}

/// The same for a whole day, and for an hour.
pub(crate) fn hour(at: SystemTime) -> String {
    Timestamp::try_from(at).map(|stamp| stamp.strftime("%H:%M").to_string()).unwrap_or_default()
}

pub(crate) fn day(at: SystemTime) -> String {
    Timestamp::try_from(at).map(|stamp| stamp.strftime("%a %Y-%m-%d").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn durations_have_one_unit() {
        let texts = [5, 119, 120, 7_199, 7_200, 172_799, 172_800].map(|seconds| duration(seconds * SECOND));
        assert_eq!(texts, ["5 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]);
        assert_eq!(duration(Duration::from_millis(12)), "12 ms");
    }

    #[test]
    fn an_instant_is_in_utc_with_its_distance() {
        let at = SystemTime::UNIX_EPOCH + 1_709_251_199 * SECOND;
        let text = instant(at, at + 60 * SECOND).into_string();
        assert!(text.contains("2024-02-29 23:59:59 UTC") && text.contains("(60 s ago)"), "{text}");
        assert!(instant(at, at - 60 * SECOND).into_string().contains("(in 60 s)"));
    }

    #[test]
    fn a_time_of_a_form_is_read_in_utc() {
        let at = SystemTime::UNIX_EPOCH + 1_709_251_140 * SECOND;
        assert_eq!(parse("2024-02-29T23:59"), Some(at));
        assert_eq!(parse("2024-02-29T23:59:30"), Some(at + 30 * SECOND));
        for text in ["", "yesterday", "2024-02-30T10:00"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
