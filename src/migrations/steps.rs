//! How each database runs migrations.

use diesel::migration::CREATE_MIGRATIONS_TABLE;

/// How a database keeps two processes from migrating it at once.
#[derive(Debug)]
pub struct Steps {
    /// Whether all migrations are one transaction.
    pub(crate) in_transaction: bool,
    /// A query that locks, and one that unlocks; the first returns `1` where it has.
    pub(crate) lock: Option<[&'static str; 2]>,
    /// A query that returns a row if Diesel's table of migrations is there.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "only diesel-async connections revert"))]
    pub(crate) recorded: &'static str,
    /// Before the transaction.
    pub(crate) before: &'static [&'static str],
    /// First in the transaction, where that is not inside another one.
    pub(crate) outermost: &'static [&'static str],
    /// Then in the transaction.
    pub(crate) first: &'static [&'static str],
}

#[cfg(feature = "postgres")]
pub(super) const POSTGRES: Steps = Steps {
    in_transaction: true,
    lock: None,
    recorded: "SELECT relname::text FROM pg_class WHERE oid = to_regclass('__diesel_schema_migrations')",
    before: &[],
    // A snapshot from before the lock would not show what the last holder did.
    outermost: &["SET TRANSACTION ISOLATION LEVEL READ COMMITTED"],
    // Before the first CREATE TABLE IF NOT EXISTS: two at once are an error. The number is this library's own.
    first: &["SELECT pg_advisory_xact_lock(8054661234)", CREATE_MIGRATIONS_TABLE],
};

#[cfg(feature = "mysql")]
pub(super) const MYSQL: Steps = Steps {
    in_transaction: false,
    lock: Some([
        "SELECT CAST(GET_LOCK(CONCAT('diesel-outbox ', MD5(DATABASE())), 60) AS char)",
        "SELECT CAST(RELEASE_LOCK(CONCAT('diesel-outbox ', MD5(DATABASE()))) AS char)",
    ]),
    recorded: "SELECT table_name FROM information_schema.tables \
               WHERE table_schema = DATABASE() AND table_name = '__diesel_schema_migrations'",
    before: &[CREATE_MIGRATIONS_TABLE],
    outermost: &[],
    first: &[],
};

#[cfg(feature = "sqlite")]
pub(super) const SQLITE: Steps = Steps {
    in_transaction: true,
    lock: None,
    recorded: "SELECT name FROM sqlite_master WHERE type = 'table' AND name = '__diesel_schema_migrations'",
    before: &[CREATE_MIGRATIONS_TABLE],
    outermost: &[],
    // A write comes first and waits for other writers; one behind a read would fail.
    first: &["DELETE FROM __diesel_schema_migrations WHERE version = ''"],
};
