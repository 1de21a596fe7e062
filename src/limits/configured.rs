//! The limits in configuration files.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Limits;

/// Declares a struct with the same fields. If a field is missing here, the code does not compile.
macro_rules! configured {
    (durations: $($duration:ident),*; counts: $($count:ident),*) => {
        #[derive(Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        struct Config {
            $(#[serde(with = "crate::durations")] $duration: Duration,)*
            $($count: usize,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self::from(&Limits::default())
            }
        }

        impl From<&Limits> for Config {
            fn from(limits: &Limits) -> Self {
                Self { $($duration: limits.$duration,)* $($count: limits.$count,)* }
            }
        }

        impl From<Config> for Limits {
            fn from(config: Config) -> Self {
                Self { $($duration: config.$duration,)* $($count: config.$count,)* }
            }
        }
    };
}

configured! {
    durations: lease_duration, lease_margin_duration, claim_window_duration, claim_lease_duration, confirm_linger_max,
        settle_linger_duration, poll_interval, watermark_slack_duration, extend_interval, probe_interval_min, probe_interval_max,
        topic_back_off_duration, lane_lease_duration, lane_yield_duration, lane_sleep_duration, prune_interval,
        backlog_interval;
    counts: claim_rows_max, claim_bytes_max, claim_workers, queue_rows_max, confirm_rows_max, in_flight_max, in_flight_bytes_max,
        settle_rows_max, settle_workers, backlog_count_max
}

/// A missing limit has its default. A duration is a text such as `"250ms"`, or a number of seconds.
impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Config::deserialize(deserializer).map(Into::into)
    }
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Config::from(self).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written() {
        let limits: Limits = serde_json::from_str(r#"{"poll_interval": "500ms", "claim_workers": 4}"#).expect("limits");
        let expected = Limits { poll_interval: Duration::from_millis(500), claim_workers: 4, ..Limits::default() };
        assert_eq!(limits, expected);
        let written = serde_json::to_string(&limits).expect("a text");
        assert_eq!(serde_json::from_str::<Limits>(&written).expect("limits"), limits);
        let error = serde_json::from_str::<Limits>(r#"{"pol_interval": "1s"}"#).expect_err("misspelt").to_string();
        assert!(error.contains("pol_interval") && error.contains("poll_interval"), "{error}");
    }
}
