//! What the servers need from this machine: found, or installed if possible.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::process::run;
use crate::cache;

/// The release of Apache Kafka that the tests run against; passed to `kafka/pom.xml`.
pub const KAFKA_VERSION: &str = "4.1.0";

/// The release of Apache RocketMQ that the tests run against; passed to `rocketmq/pom.xml`.
pub const ROCKETMQ_VERSION: &str = "5.3.3";

/// The release of Debezium that the benches compare with; passed to `debezium/pom.xml`.
pub const DEBEZIUM_VERSION: &str = "3.6.1.Final";

/// The release of Apicurio Registry that the tests run against; passed to `apicurio/pom.xml`, whose folder `repository`
/// has a stand-in for the parent of this version. Later ones need Java 21.
pub const APICURIO_VERSION: &str = "3.0.9";

/// The variable with the folder of PostgreSQL's programs, if a run uses another major than the installed one.
pub const POSTGRES_BINARIES: &str = "OUTBOX_TEST_POSTGRES_BINARIES";

/// A server that may be missing on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// PostgreSQL and pgbouncer.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// Apache Kafka, its Java and its Maven.
    Kafka,
    /// Apache RocketMQ, its Java and its Maven.
    Rocketmq,
    /// Chromium and its WebDriver server.
    Chromium,
    /// Prometheus and promtool, for the alert rules. No test shares one.
    Prometheus,
    /// Apicurio, a schema registry, its Java and its Maven. No test shares one.
    SchemaRegistry,
    /// Redis, for the order chain. Each test starts its own.
    Redis,
}

impl ServerKind {
    /// Every server that tests share.
    pub const ALL: [Self; 5] = [Self::Postgres, Self::Mariadb, Self::Kafka, Self::Rocketmq, Self::Chromium];

    /// Its name on the command line and in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Kafka => "kafka",
            Self::Rocketmq => "rocketmq",
            Self::Prometheus => "prometheus",
            Self::SchemaRegistry => "schema_registry",
            Self::Redis => "redis",
            Self::Chromium => "chromium",
        }
    }

    /// The variable in which `cargo xtask test` passes the address of the shared instance to the tests.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "OUTBOX_TEST_POSTGRES_URL",
            Self::Mariadb => "OUTBOX_TEST_MARIADB_URL",
            Self::Kafka => "OUTBOX_TEST_KAFKA",
            Self::Rocketmq => "OUTBOX_TEST_ROCKETMQ",
            Self::Prometheus => "OUTBOX_TEST_PROMETHEUS",
            Self::SchemaRegistry => "OUTBOX_TEST_SCHEMA_REGISTRY",
            Self::Redis => "OUTBOX_TEST_REDIS",
            Self::Chromium => "OUTBOX_TEST_CHROMIUM",
        }
    }

    /// Debian's packages for it.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["postgresql", "pgbouncer"],
            Self::Mariadb => &["mariadb-server"],
            Self::Kafka => &["default-jdk-headless", "maven", "openssl"],
            Self::Rocketmq | Self::SchemaRegistry => &["default-jdk-headless", "maven"],
            Self::Prometheus => &["prometheus"],
            Self::Redis => &["redis-server"],
            Self::Chromium => &["chromium", "chromium-driver"],
        }
    }

    /// Checks for everything that the server needs, without installing anything.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn check(self) -> Result<(), Unavailable> {
        match self {
            Self::Postgres => postgres_binaries().and_then(|_| pgbouncer()).map(drop),
            Self::Mariadb => mariadb_server().map(drop),
            Self::Kafka => kafka_tools().map(drop),
            Self::Rocketmq => rocketmq_tools().map(drop),
            Self::Prometheus => prometheus().and_then(|_| promtool()).map(drop),
            Self::SchemaRegistry => java(self).map(drop),
            Self::Redis => redis_server().map(drop),
            Self::Chromium => chromedriver().map(drop),
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A server that this machine does not have and cannot get.
#[derive(Debug, Clone)]
pub struct Unavailable {
    /// What is missing.
    pub kind: ServerKind,
    /// Why, and what to do about it.
    pub reason: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is unavailable: {}", self.kind, self.reason)
    }
}

impl std::error::Error for Unavailable {}

impl Unavailable {
    fn missing(kind: ServerKind, what: &str) -> Self {
        let packages = kind.packages().join(" ");
        Self { kind, reason: format!("{what} is missing; on Debian: apt-get install {packages}") }
    }
}

/// The folder with `postgres` and `initdb`: of another major if the run is for one, else the installed one.
pub(super) fn postgres_binaries() -> Result<PathBuf, Unavailable> {
    std::env::var_os(POSTGRES_BINARIES).map_or_else(installed_postgres, |folder| Ok(folder.into()))
}

/// The path of `psql`. A registry's server comes without one; the installed one speaks to any major.
pub(super) fn psql(binaries: &Path) -> Result<PathBuf, Unavailable> {
    let own = binaries.join("psql");
    if own.is_file() { Ok(own) } else { Ok(installed_postgres()?.join("psql")) }
}

fn installed_postgres() -> Result<PathBuf, Unavailable> {
    let complete = |folder: &PathBuf| ["postgres", "initdb", "psql"].iter().all(|name| folder.join(name).is_file());
    let mut debian: Vec<_> = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().collect();
    // Several major versions can be installed; the newest is used.
    debian.sort_by_key(|entry| entry.file_name().to_string_lossy().parse::<u32>().unwrap_or(0));
    let debian = debian.iter().rev().map(|entry| entry.path().join("bin"));
    search_path()
        .chain(debian)
        .find(complete)
        .ok_or_else(|| Unavailable::missing(ServerKind::Postgres, "PostgreSQL server"))
}

/// The path of `pgbouncer`.
pub(super) fn pgbouncer() -> Result<PathBuf, Unavailable> {
    find("pgbouncer").ok_or_else(|| Unavailable::missing(ServerKind::Postgres, "pgbouncer"))
}

/// The path of `chromedriver`, if the browser is there too.
pub(super) fn chromedriver() -> Result<PathBuf, Unavailable> {
    let driver = find("chromedriver").filter(|_| find("chromium").is_some());
    driver.ok_or_else(|| Unavailable::missing(ServerKind::Chromium, "Chromium with its driver"))
}

/// The path of `mariadbd`; Debian installs it outside of an ordinary user's PATH.
pub(super) fn mariadb_server() -> Result<PathBuf, Unavailable> {
    let complete = find("mariadb-install-db").and_then(|_| find("mariadb")).and_then(|_| find("mariadbd"));
    complete.ok_or_else(|| Unavailable::missing(ServerKind::Mariadb, "MariaDB server"))
}

/// The path of `java`, if everything else that Kafka needs is there too.
pub(super) fn kafka_tools() -> Result<PathBuf, Unavailable> {
    let java = java_tools(ServerKind::Kafka, "java", &KAFKA_JARS)?;
    match find("openssl") {
        Some(_) => Ok(java),
        None => Err(Unavailable::missing(ServerKind::Kafka, "openssl to make certificates")),
    }
}

/// The path of `java`, if everything else that RocketMQ needs is there too: also `javac`, for the consumer that reads what the
/// tests wrote.
pub(super) fn rocketmq_tools() -> Result<PathBuf, Unavailable> {
    java(ServerKind::Rocketmq)
}

/// The path of `java`, from a JDK that can also compile.
pub(super) fn java(kind: ServerKind) -> Result<PathBuf, Unavailable> {
    let jars = match kind {
        ServerKind::Rocketmq => &ROCKETMQ_JARS,
        ServerKind::SchemaRegistry => &APICURIO,
        _ => &KAFKA_JARS,
    };
    java_tools(kind, "javac", jars)
}

/// The path of `prometheus`.
pub(super) fn prometheus() -> Result<PathBuf, Unavailable> {
    find("prometheus").ok_or_else(|| Unavailable::missing(ServerKind::Prometheus, "Prometheus"))
}

/// The path of `redis-server`.
pub(super) fn redis_server() -> Result<PathBuf, Unavailable> {
    find("redis-server").ok_or_else(|| Unavailable::missing(ServerKind::Redis, "Redis server"))
}

/// The path of `promtool`.
///
/// # Errors
///
/// It is missing.
pub fn promtool() -> Result<PathBuf, Unavailable> {
    find("promtool").ok_or_else(|| Unavailable::missing(ServerKind::Prometheus, "promtool"))
}

fn java_tools(kind: ServerKind, compiler: &str, jars: &Jars) -> Result<PathBuf, Unavailable> {
    let java = find("java").filter(|_| find(compiler).is_some());
    let java = java.ok_or_else(|| Unavailable::missing(kind, "Java"))?;
    match cache::place(&jars.name()).is_dir() || find("mvn").is_some() {
        true => Ok(java),
        false => Err(Unavailable::missing(kind, "Maven to fetch the jars")),
    }
}

/// The folder with Kafka's jars; the first call on a machine fetches them through Maven.
///
/// # Errors
///
/// [`Unavailable`] if Maven is missing or cannot fetch them.
pub(super) fn kafka_jars() -> Result<PathBuf, Unavailable> {
    kafka_tools()?;
    KAFKA_JARS.get(ServerKind::Kafka)
}

/// Like [`kafka_jars`], of Kafka's command line tools.
pub(super) fn kafka_tools_jars() -> Result<PathBuf, Unavailable> {
    kafka_tools()?;
    KAFKA_TOOLS_JARS.get(ServerKind::Kafka)
}

/// Like [`kafka_jars`].
pub(super) fn rocketmq_jars() -> Result<PathBuf, Unavailable> {
    rocketmq_tools()?;
    ROCKETMQ_JARS.get(ServerKind::Rocketmq)
}

/// Like [`kafka_jars`]; Debezium needs nothing that Kafka does not.
pub(super) fn debezium_jars() -> Result<PathBuf, Unavailable> {
    kafka_tools()?;
    DEBEZIUM_JARS.get(ServerKind::Kafka)
}

/// Apicurio's program; the first call on a machine fetches its archive through Maven.
pub(super) fn apicurio() -> Result<PathBuf, Unavailable> {
    java(ServerKind::SchemaRegistry)?;
    let folder = APICURIO.get_with(ServerKind::SchemaRegistry, |folder| {
        APICURIO.fetch(folder)?;
        let archive = folder.join(format!("apicurio-registry-app-{APICURIO_VERSION}-all.tar.gz"));
        run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder))?;
        std::fs::remove_file(&archive).with_context(|| format!("remove {}", archive.display()))
    })?;
    Ok(folder.join(format!("apicurio-registry-app-{APICURIO_VERSION}-runner.jar")))
}

const APICURIO: Jars =
    Jars { pom: concat!(env!("CARGO_MANIFEST_DIR"), "/apicurio/pom.xml"), name: "apicurio", version: APICURIO_VERSION };
const KAFKA_JARS: Jars =
    Jars { pom: concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/pom.xml"), name: "kafka", version: KAFKA_VERSION };
const KAFKA_TOOLS_JARS: Jars = Jars {
    pom: concat!(env!("CARGO_MANIFEST_DIR"), "/kafka-tools/pom.xml"),
    name: "kafka-tools",
    version: KAFKA_VERSION,
};
const ROCKETMQ_JARS: Jars =
    Jars { pom: concat!(env!("CARGO_MANIFEST_DIR"), "/rocketmq/pom.xml"), name: "rocketmq", version: ROCKETMQ_VERSION };
const DEBEZIUM_JARS: Jars =
    Jars { pom: concat!(env!("CARGO_MANIFEST_DIR"), "/debezium/pom.xml"), name: "debezium", version: DEBEZIUM_VERSION };

/// The dependencies of a `pom.xml`, in their own folder.
struct Jars {
    pom: &'static str,
    name: &'static str,
    version: &'static str,
}

impl Jars {
    fn name(&self) -> String {
        format!("servers/{}-{}", self.name, self.version)
    }

    fn get(&self, kind: ServerKind) -> Result<PathBuf, Unavailable> {
        self.get_with(kind, |folder| self.fetch(folder))
    }

    fn get_with(&self, kind: ServerKind, fetch: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf, Unavailable> {
        let fetched = cache::get(&self.name(), fetch);
        fetched.map_err(|error| Unavailable { kind, reason: format!("{error:#}") })
    }

    fn fetch(&self, folder: &Path) -> Result<()> {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-Dstyle.color=never", "dependency:copy-dependencies", "-f", self.pom]);
        maven.arg(format!("-D{}.version={}", self.name, self.version));
        maven.arg(format!("-Dlib.dir={}", folder.display()));
        run(&mut maven).map(drop)
    }
}

fn search_path() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.into_iter().chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
}

/// The first program of that name in the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    search_path().map(|folder| folder.join(program)).find(|path| path.is_file())
}
