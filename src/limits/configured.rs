//! The limits in configuration files.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Limits;
use super::setters::for_each_limit;

/// Declares a struct with the same fields.
macro_rules! configured {
    (durations: $($duration:ident),*; counts: $($count:ident),*) => {
        #[derive(Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        struct Config {
            $(#[serde(with = "humantime_serde")] $duration: Duration,)*
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

for_each_limit!(configured);

/// A missing limit has its default. A duration is a text such as `"250ms"` or `"1h 30m"`.
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
