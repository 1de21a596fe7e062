//! What `cargo xtask test` is to run.

use clap::Args;
use xtask::servers::ServerKind;

/// What to run; without arguments, everything.
#[derive(Debug, Default, Args)]
pub(crate) struct TestArgs {
    /// Run only this, and start only the servers it names; may be given several times
    #[arg(long, value_parser = Only::parse)]
    pub(crate) only: Vec<Only>,
    /// Run what needs no server, in minutes: spelling, lint, house rules, unit tests, the in-memory and SQLite suites
    #[arg(long, conflicts_with_all = ["only", "filter"])]
    pub(crate) quick: bool,
    /// Run the PostgreSQL suites on these majors, as 14,16,18: servers from npm packages
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["only", "quick", "keep"])]
    pub(crate) postgres: Vec<u32>,
    /// Leave the servers running afterwards, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
    /// Run only the integration tests whose name contains one of these
    pub(crate) filter: Vec<String>,
}

/// For repeated use during a day: no server, and no build that the whole run does not also need. The tests of the alert rules are left
/// out: they take a processor for 45 s, and few changes touch a rule.
const QUICK: &[Only] = &[Only::Typos, Only::Lint, Only::Unit, Only::Memory, Only::Sqlite, Only::Tidy];

/// The databases on which a browser tests the dashboard, besides SQLite.
const BROWSER_DATABASES: [ServerKind; 2] = [ServerKind::Postgres, ServerKind::Mariadb];

/// Half messages go through RocketMQ, whatever the database.
const WITHOUT_ROCKETMQ: [&str; 2] = ["--skip", "half_rocketmq"];

impl TestArgs {
    /// Only this step.
    pub(crate) fn one(only: Only) -> Self {
        Self { only: vec![only], ..Self::default() }
    }

    fn only(&self) -> &[Only] {
        if self.quick { QUICK } else { &self.only }
    }

    /// The steps that a quick run leaves out.
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        let is_left_out = |step: &Only| self.quick && !QUICK.contains(step);
        Only::all().filter(|(_, step)| is_left_out(step)).map(|(name, _)| name).collect()
    }

    /// Whether nothing was chosen.
    pub(crate) fn is_all(&self) -> bool {
        self.only().is_empty() && self.filter.is_empty()
    }

    /// Whether `step` is to run.
    pub(crate) fn wants(&self, step: Only) -> bool {
        self.is_all() || (self.filter.is_empty() && self.only().contains(&step))
    }

    /// The servers that it needs.
    pub(crate) fn servers(&self) -> Vec<ServerKind> {
        let only = self.only();
        let all = only.is_empty() || self.wants(Only::Examples);
        let for_browser = |kind| self.wants(Only::BROWSER) && BROWSER_DATABASES.contains(&kind);
        let is_wanted = |kind: &ServerKind| all || only.contains(&Only::Server(*kind)) || for_browser(*kind);
        ServerKind::ALL.into_iter().filter(is_wanted).collect()
    }

    /// Whether it runs tests that jobs may run beside.
    pub(crate) fn runs_tests(&self) -> bool {
        let steps = [Only::Unit, Only::BROWSER, Only::Faults, Only::Docs, Only::Examples];
        self.integration().is_some() || steps.into_iter().any(|step| self.wants(step))
    }

    /// The libtest arguments that select the integration tests; `None` if there are none.
    pub(crate) fn integration(&self) -> Option<Vec<&str>> {
        if !self.filter.is_empty() {
            return Some(self.filter.iter().map(String::as_str).collect());
        }
        let names: Vec<_> = self.only().iter().flat_map(|only| only.names().iter().copied()).collect();
        let skips = WITHOUT_ROCKETMQ.iter().filter(|_| self.quick);
        (self.is_all() || !names.is_empty()).then(|| names.into_iter().chain(skips.copied()).collect())
    }

    /// The same for another major of PostgreSQL.
    pub(crate) fn on_postgres(&self) -> Vec<&str> {
        let names = Only::Server(ServerKind::Postgres).names().iter().copied();
        let names = if self.filter.is_empty() { names.collect() } else { self.integration().unwrap_or_default() };
        names.into_iter().chain(WITHOUT_ROCKETMQ).collect()
    }
}

/// A selection of the steps, or of the tests by the servers they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    /// Tests with this server in their name.
    Server(ServerKind),
    /// Tests with SQLite in their name.
    Sqlite,
    /// Tests of the in-memory store and transport.
    Memory,
    /// Tests inside the crates.
    Unit,
    /// The model of the protocol.
    Model,
    /// Real applications under faults, for a minute.
    Faults,
    /// Spelling.
    Typos,
    /// Formatting and clippy.
    Lint,
    /// The library with some of its features.
    Features,
    /// Licences, sources, advisories and bans of the dependencies.
    Deny,
    /// The packages, as they would be published.
    Package,
    /// Formatting and the house rules.
    Tidy,
    /// The alert rules and their tests, by promtool.
    Ops,
    /// Documentation and its examples.
    Docs,
    /// The example programs.
    Examples,
}

/// Everything except the servers.
const NAMED: &[(&str, Only)] = &[
    ("sqlite", Only::Sqlite),
    ("memory", Only::Memory),
    ("unit", Only::Unit),
    ("model", Only::Model),
    ("faults", Only::Faults),
    ("typos", Only::Typos),
    ("lint", Only::Lint),
    ("features", Only::Features),
    ("deny", Only::Deny),
    ("package", Only::Package),
    ("tidy", Only::Tidy),
    ("ops", Only::Ops),
    ("docs", Only::Docs),
    ("examples", Only::Examples),
];

impl Only {
    /// The dashboard in a browser.
    pub(crate) const BROWSER: Self = Self::Server(ServerKind::Chromium);

    /// Each with its name on the command line.
    fn all() -> impl Iterator<Item = (&'static str, Self)> + Clone {
        let servers = ServerKind::ALL.into_iter().map(|kind| (kind.name(), Self::Server(kind)));
        servers.chain(NAMED.iter().copied())
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let mut known = Self::all();
        let names = || known.clone().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let expected = format!("one of {}", names());
        known.find(|(known, _)| *known == name).map(|(_, only)| only).ok_or(expected)
    }

    /// What the names of its integration tests contain.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Server(ServerKind::Postgres) => &["postgres", "pgbouncer"],
            Self::Server(ServerKind::Mariadb) => &["mariadb", "mysql"],
            Self::Server(ServerKind::Kafka) => &["kafka"],
            Self::Server(ServerKind::Rocketmq) => &["rocketmq"],
            // Its tests are another binary.
            Self::Server(ServerKind::Chromium) => &[],
            Self::Sqlite => &["sqlite"],
            Self::Memory => &["memory"],
            Self::Tidy => &["tidy::"],
            Self::Unit | Self::Model | Self::Faults | Self::Typos | Self::Lint | Self::Features => &[],
            Self::Deny | Self::Package | Self::Docs | Self::Examples | Self::Ops => &[],
            Self::Server(ServerKind::Prometheus) => &["prometheus"],
            Self::Server(ServerKind::SchemaRegistry) => &["schema_registry"],
            Self::Server(ServerKind::Redis) => &["redis"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_and_a_wrong_one_names_them() {
        for (name, only) in NAMED {
            assert_eq!(Only::parse(name), Ok(*only));
        }
        assert_eq!(Only::parse("kafka"), Ok(Only::Server(ServerKind::Kafka)));
        assert!(Only::parse("mongo").unwrap_err().contains("rocketmq, chromium, sqlite"));
    }

    #[test]
    fn a_quick_run_takes_no_server_and_everything_takes_all() {
        let quick = TestArgs { quick: true, ..TestArgs::default() };
        assert!(quick.servers().is_empty() && quick.wants(Only::Lint) && !quick.wants(Only::Deny));
        assert_eq!(quick.integration().unwrap(), ["memory", "sqlite", "tidy::", "--skip", "half_rocketmq"]);
        assert_eq!(quick.left_out()[..5], ["postgres", "mariadb", "kafka", "rocketmq", "chromium"]);
        let all = TestArgs::default();
        assert!(all.left_out().is_empty());
        assert_eq!((all.servers().len(), all.integration()), (ServerKind::ALL.len(), Some(Vec::new())));
        assert!(all.wants(Only::Deny) && all.wants(Only::BROWSER));
        let browser = TestArgs::one(Only::BROWSER);
        assert_eq!(browser.servers(), [ServerKind::Postgres, ServerKind::Mariadb, ServerKind::Chromium]);
        assert_eq!(browser.integration(), None);
    }

    #[test]
    fn a_part_of_a_name_takes_every_server_and_no_other_step() {
        let args = TestArgs { filter: vec!["settle".to_owned()], ..TestArgs::default() };
        assert_eq!((args.servers().len(), args.integration()), (ServerKind::ALL.len(), Some(vec!["settle"])));
        assert!(!args.wants(Only::Unit));
        assert_eq!(args.on_postgres(), ["settle", "--skip", "half_rocketmq"]);
        assert_eq!(TestArgs::one(Only::Lint).integration(), None);
    }
}
