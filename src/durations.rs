//! Durations in configuration files: `"250ms"`, `"1h 30m"`, or a number of seconds.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads a duration from a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// For `#[serde(with = ..)]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Span::deserialize(deserializer).map(|span| span.0)
}

/// For `#[serde(with = ..)]`.
pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    Span(*duration).serialize(serializer)
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (whole, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        match nanos {
            0 => serializer.collect_str(&format_args!("{whole}s")),
            nanos if nanos % 1_000_000 == 0 => serializer.collect_str(&format_args!("{}ms", self.0.as_millis())),
            nanos => serializer.collect_str(&format_args!("{whole}s {nanos}ns")),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"250ms\", \"5s\" or \"1h 30m\", or a number of seconds")
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Span, E> {
        Ok(Span(Duration::from_secs(seconds)))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Span, E> {
        u64::try_from(seconds).map(|seconds| Span(Duration::from_secs(seconds))).map_err(|_| below_zero())
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Span, E> {
        Duration::try_from_secs_f64(seconds).map(Span).map_err(|error| match seconds < 0.0 {
            true => below_zero(),
            false => E::custom(format_args!("{seconds} is no number of seconds: {error}")),
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        parse(text).map(Span).ok_or_else(|| {
            E::custom(format_args!(
                "{text:?} is not a duration: give numbers with ns, us, ms, s, m, h or d, as in \"1h 30m\""
            ))
        })
    }
}

fn below_zero<E: Error>() -> E {
    E::custom("a duration cannot be negative: give a number of seconds, zero or more")
}

/// Reads numbers, each with its unit. A number without a unit is refused, because seconds and milliseconds are easily confused.
fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text.trim(), Duration::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let count: u64 = rest[..number].parse().ok()?;
        rest = rest[number..].trim_start();
        let unit = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        sum = sum.checked_add(of_unit(count, &rest[..unit])?)?;
        rest = rest[unit..].trim_start();
    }
    Some(sum)
}

fn of_unit(count: u64, unit: &str) -> Option<Duration> {
    let seconds = |each: u64| count.checked_mul(each).map(Duration::from_secs);
    match unit {
        "ns" => Some(Duration::from_nanos(count)),
        "us" => Some(Duration::from_micros(count)),
        "ms" => Some(Duration::from_millis(count)),
        "s" => seconds(1),
        "m" | "min" => seconds(60),
        "h" => seconds(3_600),
        "d" => seconds(86_400),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Duration, String> {
        serde_json::from_str::<Span>(json).map(|span| span.0).map_err(|error| error.to_string())
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (json, expected) in [
            (r#""250ms""#, Duration::from_millis(250)),
            (r#""1h 30m""#, Duration::from_secs(5_400)),
            (r#"" 2d1s ""#, Duration::from_secs(172_801)),
            (r#""0s""#, Duration::ZERO),
            (r#""5 s""#, Duration::from_secs(5)),
            ("5", Duration::from_secs(5)),
            ("1.5", Duration::from_millis(1_500)),
        ] {
            assert_eq!(read(json), Ok(expected), "{json}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for json in [
            r#""5""#,
            r#""""#,
            r#""soon""#,
            r#""5 parsecs""#,
            r#""-1s""#,
            r#""99999999999999999999s""#,
            "-1",
            "-0.5",
            "true",
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains("duration"), "{json}: {error}");
        }
    }

    #[test]
    fn a_written_duration_is_read_again() {
        for duration in
            [Duration::ZERO, Duration::from_secs(30), Duration::from_millis(1_100), Duration::from_nanos(1_000_000_001)]
        {
            let json = serde_json::to_string(&Span(duration)).expect("a text");
            assert_eq!(read(&json), Ok(duration), "{json}");
        }
    }
}
