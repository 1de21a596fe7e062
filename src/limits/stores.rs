//! Limits of stores, their connections and their transactions.

use std::time::Duration;

/// The time-out of each call of a store by default; then its connection is discarded. Longer than a failover within one
/// site, short enough that a relay notices a silent database before half of its leases are over.
///
/// Not a limit of the relay: several relays may use a store, and so may an [`Admin`](crate::admin::Admin).
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// When the server aborts a statement that waits for a lock, in percent of the call's time-out: before
/// [`SERVER_STATEMENT_TIMEOUT_PERCENT`], so that the error names the lock.
pub const SERVER_LOCK_TIMEOUT_PERCENT: u32 = 80;

/// When the server aborts any statement, in percent of the call's time-out, so that its answer arrives in time: half a
/// second early with 5 s.
pub const SERVER_STATEMENT_TIMEOUT_PERCENT: u32 = 90;

/// How long r2d2 may try to connect, in percent of what the caller waits. Only when that time is over does it report why
/// it could not, as a wrong password.
pub const R2D2_TIMEOUT_PERCENT: u32 = 90;

/// The shortest part of a database's URL that counts as a secret and is masked in driver errors: a shorter one would
/// match half of all words, and is no secret.
pub const SECRET_LENGTH_MIN: usize = 3;

/// How long a store keeps an idle connection. A minute is below the limit of every firewall and server that we know of.
/// A silently cut connection would cost the next call its whole time-out.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(60);

/// How long a store keeps an idle connection of a pool that others use.
pub const SHARED_CONNECTION_IDLE_MAX: Duration = Duration::from_secs(5);

/// Connections of a store that opens its own and is not used by a relay. An [`Admin`](crate::admin::Admin) makes few calls at once,
/// because people make them.
pub const OWN_CONNECTIONS_MAX: usize = 4;

/// Connections of a shared pool that a relay never takes, so that the application can go on.
pub const CONNECTIONS_LEFT_FREE: usize = 1;

/// Connections of a store in SQLite: one that writes and one that reads.
pub const SQLITE_CONNECTIONS: usize = 2;

/// Connections that a store opens at once. Calls that come together wait for each other's connections for milliseconds
/// at start. Without a bound, a pool with fewer connections than calls would collect a waiter for each call's whole
/// time-out.
pub const CONNECTIONS_OPENING_MAX: usize = 1;

/// How long a relay waits at its start for a second connection, to find out whether a pooler mixes sessions. A pool
/// opens one within milliseconds; a pool without a second one must not delay the start for longer.
pub const POOLER_CHECK_WAIT: Duration = Duration::from_secs(1);

/// How long a store waits for the answer to an abandoned call: a statement that the server was told to end, or the
/// opening of a connection. The connection keeps its place in the pool meanwhile. Far above every time-out that the
/// server was given. After a firewall dropped all connections, a store is cut off from its database for this long.
pub const ABANDONED_STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a cancel request may take, and how long the store's next one waits if the server does not answer the
/// statement. It normally answers within milliseconds. A stalled server has one more connection for each request.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A store opens no new connection while this many abandoned statements are unanswered. With a pool of its own this
/// stays below the pool's bound. From a shared pool, the store takes at most its concurrent calls plus these while a
/// lock is held, and leaves the rest to the application.
pub const CONNECTIONS_ABANDONED_MAX: usize = 4;

/// For how long after an abandoned statement PostgreSQL's single statements run in transactions, where time-outs can be
/// set for them alone. That takes three round trips in place of one. A session's setting needs none, but behind
/// pgbouncer it would end other clients' statements.
pub const STATEMENT_TIMEOUT_CAUTION: Duration = Duration::from_secs(60);

/// How long after a claim's lease the database ends an idle claim. Long enough for a process that is only slow; short,
/// because its rows stay locked until then.
pub const CLAIM_IDLE_GRACE: Duration = Duration::from_secs(1);

/// How long a connection to PostgreSQL keeps its plans. The server keeps one until the table's statistics change, a
/// minute or more. If it was made for a few rows and meets a backlog, a settle of 500 rows among 100,000 takes 16 s in
/// place of 10 ms. `SET plan_cache_mode` would do the same without a round trip, but behind pgbouncer it would stick to
/// connections of others.
pub const POSTGRES_PLAN_AGE_MAX: Duration = Duration::from_secs(1);

/// How long MariaDB and MySQL wait between the statements of a write, which follow each other at once: a node that
/// stops in between blocks others for no longer.
pub const MYSQL_WRITE_IDLE_MAX: Duration = Duration::from_secs(2);

/// How long the mark of a half message waits on these servers for an open transaction that has inserted the same one:
/// the shortest time that both accept.
pub const MYSQL_MARK_WAIT: Duration = Duration::from_secs(1);
