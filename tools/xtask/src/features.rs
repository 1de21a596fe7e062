//! The library built as applications build it: with some of its features.

/// Sets of features: none, each alone, and those that applications choose. Each must build without a warning. Code that is unused
/// without another feature shows here, and in no build with all features. `kafka-ssl` also covers `kafka`: it only passes options
/// on, and a separate `kafka` would build librdkafka once more.
const CHOICES: Choices = Choices {
    always: &[
        "",
        "postgres",
        "mysql",
        "sqlite",
        "libpq",
        "http,rocketmq,serde",
        "postgres,deadpool,kafka-ssl",
        "mysql,bb8",
        "sqlite,mobc,r2d2,kafka-ssl",
    ],
    further: &[
        "derive",
        "r2d2",
        "async",
        "kafka-ssl",
        "rocketmq",
        "http",
        "serde",
        "testing",
        "postgres,r2d2",
        "postgres,deadpool,rocketmq",
        "sqlite,r2d2,rocketmq",
    ],
};

/// The same for the command line, which needs a database: each alone, then with a broker or the dashboard.
const CLI_CHOICES: Choices =
    Choices { always: &["postgres", "sqlite,web"], further: &["mysql", "sqlite", "sqlite,kafka", "sqlite,rocketmq"] };

/// The features of `diesel-outbox-codecs`: none, and each alone.
const CODECS_CHOICES: Choices = Choices { always: &["", "webhook"], further: &["avro", "cloudevents", "protobuf"] };

/// The features of `diesel-outbox-otel`: none, and each alone.
const OTEL_CHOICES: Choices = Choices { always: &["", "tracing"], further: &["http", "rdkafka"] };

/// The features of `diesel-outbox-verify`: none, and each alone.
const VERIFY_CHOICES: Choices = Choices { always: &[""], further: &["kafka", "rocketmq"] };

/// The sets of one package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choices {
    /// Checked by every whole run. Most find what is unused without another feature.
    always: &'static [&'static str],
    /// Checked by `--only features`, which the workflow runs beside its other jobs. All forty take a quarter of a whole run where
    /// nothing is built: each set has Diesel with other features.
    further: &'static [&'static str],
}

impl Choices {
    /// The sets of a whole run, or all.
    pub(crate) fn of_run(self, is_whole: bool) -> impl Iterator<Item = &'static str> {
        let further = if is_whole { &[] } else { self.further };
        self.always.iter().chain(further).copied()
    }
}

/// Each package with its sets. The dashboard has no features: it is built with the library as it needs it.
pub(crate) const PACKAGES: &[(&str, Choices)] = &[
    ("diesel-outbox", CHOICES),
    ("diesel-outbox-codecs", CODECS_CHOICES),
    ("diesel-outbox-otel", OTEL_CHOICES),
    ("diesel-outbox-verify", VERIFY_CHOICES),
    ("diesel-outbox-web", Choices { always: &[""], further: &[] }),
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
                choices.of_run(false).flat_map(|choice| choice.split(',')).filter(|name| !name.is_empty()).collect();
            assert_eq!(chosen, public, "{manifest}");
        }
    }
}
