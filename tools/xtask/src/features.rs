//! The library built as applications build it: with some of its features.

/// Sets of features: none, each alone, and those that applications choose. Each must build without a warning. Code that is unused
/// without another feature shows here, and in no build with all features. `kafka-ssl` also covers `kafka`: it only passes options
/// on, and a separate `kafka` would build librdkafka once more.
const CHOICES: &[&str] = &[
    "",
    "derive",
    "postgres",
    "mysql",
    "sqlite",
    "r2d2",
    "async",
    "kafka-ssl",
    "rocketmq",
    "http",
    "serde",
    "testing",
    "http,rocketmq,serde",
    "postgres,r2d2",
    "libpq",
    "postgres,deadpool,kafka-ssl",
    "mysql,bb8",
    "sqlite,mobc,r2d2,kafka-ssl",
    "postgres,deadpool,rocketmq",
    "sqlite,r2d2,rocketmq",
];

/// The same for the command line, which needs a database: each alone, then with a broker or the dashboard.
const CLI_CHOICES: &[&str] = &["postgres", "mysql", "sqlite", "sqlite,kafka", "sqlite,rocketmq", "sqlite,web"];

/// The features of `diesel-outbox-codecs`: none, and each alone.
const CODECS_CHOICES: &[&str] = &["", "avro", "cloudevents", "protobuf", "webhook"];

/// The features of `diesel-outbox-otel`: none, and each alone.
const OTEL_CHOICES: &[&str] = &["", "http", "rdkafka", "tracing"];

/// The features of `diesel-outbox-verify`: none, and each alone.
const VERIFY_CHOICES: &[&str] = &["", "kafka", "rocketmq"];

/// Each package with its sets. The dashboard has no features: it is built with the library as it needs it.
pub(crate) const PACKAGES: &[(&str, &[&str])] = &[
    ("diesel-outbox", CHOICES),
    ("diesel-outbox-codecs", CODECS_CHOICES),
    ("diesel-outbox-otel", OTEL_CHOICES),
    ("diesel-outbox-verify", VERIFY_CHOICES),
    ("diesel-outbox-web", &[""]),
    ("diesel-outbox-cli", CLI_CHOICES),
];

/// The arguments that check one set. Clippy, because its `-D warnings` applies to the library alone; with `RUSTFLAGS` every
/// dependency would be rebuilt.
pub(crate) fn check<'a>(package: &'a str, choice: &'a str) -> Vec<&'a str> {
    let package = ["clippy", "--quiet", "--package", package, "--lib", "--no-default-features"];
    [package.as_slice(), &["--features", choice, "--", "-D", "warnings"]].concat()
}

/// The fault harness with its injected bugs, which nothing else builds.
pub(crate) const INJECTED_BUGS: &[&str] = &[
    "clippy",
    "--quiet",
    "--package",
    "diesel-outbox-faults",
    "--all-targets",
    "--features",
    "_injected_bugs",
    "--",
    "-D",
    "warnings",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::commands::workspace;

    #[test]
    fn every_public_feature_is_in_a_choice() {
        for (manifest, choices) in [
            ("Cargo.toml", CHOICES),
            ("crates/diesel-outbox-codecs/Cargo.toml", CODECS_CHOICES),
            ("crates/diesel-outbox-otel/Cargo.toml", OTEL_CHOICES),
            ("crates/diesel-outbox-verify/Cargo.toml", VERIFY_CHOICES),
        ] {
            let text = fs::read_to_string(workspace().join(manifest)).expect("a Cargo.toml");
            let features = text.split_once("\n[features]\n").expect("its features").1;
            let features = features.split("\n\n").next().expect("the first paragraph");
            let lines = features.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
            // The library's `kafka` is in `kafka-ssl`.
            let is_covered = |name: &str| manifest == "Cargo.toml" && name == "kafka";
            let public: BTreeSet<_> =
                lines.filter(|name| *name != "default" && !name.starts_with('_') && !is_covered(name)).collect();
            let chosen: BTreeSet<_> =
                choices.iter().flat_map(|choice| choice.split(',')).filter(|name| !name.is_empty()).collect();
            assert_eq!(chosen, public, "{manifest}");
        }
    }
}
