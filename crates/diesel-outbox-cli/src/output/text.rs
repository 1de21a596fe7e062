use std::fmt::Display;
use std::time::{Duration, SystemTime};

/// Characters of an error that a table shows: one line of a wide terminal, together with an id.
const CUT_AT: usize = 60;

/// A text without control characters, which could move the cursor of a terminal or change its title. Line ends stay.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push('\n'),
            // Direction marks reorder what stands beside them.
            control if control.is_control() || ('\u{202a}'..='\u{202e}').contains(&control) => {
                shown.extend(control.escape_default());
            }
            plain => shown.push(plain),
        }
    }
    shown
}

/// One line of a text, and not too much of it.
pub(crate) fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(CUT_AT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

/// A moment, in UTC, to the second.
pub(crate) fn instant(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at.max(SystemTime::UNIX_EPOCH)).to_string()
}

/// A duration, to the second, or below one to the millisecond.
pub(crate) fn age(age: Duration) -> String {
    let rounded = if age < Duration::from_secs(1) {
        Duration::from_millis(age.subsec_millis().into())
    } else {
        Duration::from_secs(age.as_secs())
    };
    humantime::format_duration(rounded).to_string().replace(' ', "")
}

/// So many of something: `1 key`, `2 keys`, `at least 50 keys`.
pub(crate) fn plural(count: usize, more: bool, what: &str) -> String {
    let at_least = if more { "at least " } else { "" };
    let s = if count == 1 { "" } else { "s" };
    format!("{at_least}{count} {what}{s}")
}

/// A value, or a dash.
pub(crate) fn optional(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The size of a payload.
pub(crate) fn bytes(payload: Option<&[u8]>) -> String {
    payload.map_or_else(|| "tombstone".to_owned(), |payload| payload.len().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_escaped() {
        assert_eq!(printable("a\x1b[31mb\r\t\u{9b}c\u{202e}d\ne ü"), "a\\u{1b}[31mb\\r\\t\\u{9b}c\\u{202e}d\ne ü");
    }

    #[test]
    fn an_error_is_cut_to_a_line() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut("one\ntwo"), "one…");
        assert_eq!(cut(&"ü".repeat(61)), format!("{}…", "ü".repeat(60)));
        assert_eq!(cut(&"ü".repeat(60)), "ü".repeat(60));
    }

    #[test]
    fn times_are_short() {
        assert_eq!(instant(SystemTime::UNIX_EPOCH + Duration::from_millis(61_900)), "1970-01-01T00:01:01Z");
        for (millis, shown) in [(0, "0s"), (250, "250ms"), (1_999, "1s"), (3_661_000, "1h1m1s")] {
            assert_eq!(age(Duration::from_millis(millis)), shown);
        }
    }
}
