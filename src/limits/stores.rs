//! Of stores, their connections and their transactions.

use std::time::Duration;

/// The deadline of each call of a store, where it is given no other; then its connection is discarded. Longer than a failover in one
/// place, short enough that a relay notices a database that says nothing before half of its leases are over.
///
/// No bound of the relay's: a store may be asked by several, and by an [`Admin`](crate::admin::Admin).
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// When the server gives a statement up that waits for a lock, in percent of what the caller waits: before
/// [`SERVER_STATEMENT_TIMEOUT_PERCENT`], so that it says that it was a lock.
pub const SERVER_LOCK_TIMEOUT_PERCENT: u32 = 80;

/// When the server gives any statement up, in percent of what the caller waits, so that its answer arrives in time: of 5 s, half a second.
pub const SERVER_STATEMENT_TIMEOUT_PERCENT: u32 = 90;

/// The shortest part of a database's URL that is looked for as a secret in what drivers complain of: what is shorter would be found in
/// every other word, and is none.
pub const SECRET_LENGTH_MIN: usize = 3;

/// How long a store keeps a connection that lies idle. A minute is below every firewall's and server's own bound that we know of: one
/// that was cut silently would cost the next call its whole deadline.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(60);

/// Connections that a store opens at once. Calls that come together wait milliseconds for each other's at start; without a bound, a
/// pool with fewer connections than calls would collect one waiter for each call of its whole deadline.
pub const CONNECTIONS_OPENING_MAX: usize = 1;

/// How long a relay waits at its start for a second connection, to find out whether a pooler mixes the sessions of connections. A pool
/// that opens one takes milliseconds; one that has no second does not delay the start for longer.
pub const POOLER_CHECK_WAIT: Duration = Duration::from_secs(1);

/// For how long a store waits for an answer that nobody else waits for any more, of a server that was told to end the statement, or that is
/// to open a connection. The connection keeps its place in the pool meanwhile. Far above every time that the server was told; a firewall that
/// has forgotten all connections keeps a store from its database for so long.
pub const ABANDONED_STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a cancel request may take, and how long the next one of the same store waits where the server does not answer the statement: it
/// does so in milliseconds, or stands still, and then each is one more connection that it finds when it goes on.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A store opens no connection beside so many whose statements were given up and not answered. With a pool of its own that is below what the
/// pool bounds; of one that it shares it takes its calls at once and these, while a lock is held, and leaves the rest to the application.
pub const CONNECTIONS_ABANDONED_MAX: usize = 4;

/// For how long after a statement was given up PostgreSQL's single statements stand in transactions, where time-outs can be set for them
/// alone. Three round trips in place of one; a session's setting needs none, but behind pgbouncer it would end statements of others.
pub const STATEMENT_TIMEOUT_CAUTION: Duration = Duration::from_secs(60);

/// How long after a claim's term the database ends a claim whose process says nothing more. Long enough for a process that is only
/// slow; short, because its rows stay locked until then.
pub const CLAIM_IDLE_GRACE: Duration = Duration::from_secs(1);

/// How long a connection to PostgreSQL keeps its plans. The server keeps one until it next looks at the table, a minute or more; where
/// it was made for a few rows and meets a backlog, a settle of 500 rows among 100,000 takes 16 s in place of 10 ms.
/// `SET plan_cache_mode` would do the same without a round trip, but behind pgbouncer it would stick to connections of others.
pub const POSTGRES_PLAN_AGE_MAX: Duration = Duration::from_secs(1);

/// How long MariaDB and MySQL let a write be silent between its statements, which follow each other at once: a node that stops in the
/// middle keeps no other from what it has locked for longer.
pub const MYSQL_WRITE_IDLE_MAX: Duration = Duration::from_secs(2);

/// How long the mark of a half message waits there for an open transaction that has inserted the same one: the least that these
/// servers both take.
pub const MYSQL_MARK_WAIT: Duration = Duration::from_secs(1);
