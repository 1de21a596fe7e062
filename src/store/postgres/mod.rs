//! PostgreSQL.

mod admin;
mod admin_rows;
mod admin_texts;
mod backlog;
mod bind;
mod check;
mod claim;
mod ctid;
mod half_texts;
mod halves;
mod history;
mod history_texts;
mod lane_texts;
mod lanes;
mod notice_connection;
mod notice_texts;
mod notices;
mod partitions;
mod port;
mod rows;
#[cfg(any(feature = "async", feature = "libpq"))]
mod secrets;
mod texts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel::pg::Pg;

use self::admin_texts::AdminTexts;
use self::half_texts::half_texts;
use self::history_texts::HistoryTexts;
use self::lane_texts::LaneTexts;
pub use self::notice_connection::NoticeConnection;
use self::notice_texts::NoticeSide;
pub(crate) use self::rows::instant as pg_instant;
use self::texts::Texts;
use super::half_marks::HalfTexts;
use super::pause_table::PauseTable;
use super::session::{Connections, Sessions};
use crate::clock::millis;
use crate::limits::{POSTGRES_PLAN_AGE_MAX, SERVER_LOCK_PERCENT, SERVER_STATEMENT_PERCENT, STATEMENT_TIMEOUT};
use crate::naming::TableNames;
use crate::planted::{Mistake, planted};

/// An outbox in PostgreSQL (13 or later).
///
/// Works through sync (r2d2) and async (diesel-async) pools alike, see [`Sessions`], and behind pgbouncer in session or
/// transaction mode.
///
/// ```no_run
/// # #[cfg(feature = "r2d2")] {
/// use diesel::PgConnection;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::store::PostgresStore;
///
/// let pool = Pool::builder().max_size(6).build(ConnectionManager::<PgConnection>::new("postgres://localhost/shop"))?;
/// let store = PostgresStore::new(pool);
/// # let _ = store;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct PostgresStore<P: Sessions<Pg>> {
    connections: Connections<Pg, P>,
    names: TableNames,
    texts: Texts,
    lane_texts: LaneTexts,
    half_texts: HalfTexts,
    admin_texts: AdminTexts,
    pause_table: PauseTable,
    history_texts: HistoryTexts,
    notices: Option<NoticeSide>,
}

/// States the isolation of statements that are a transaction by themselves. Where the database's or the role's default is SERIALIZABLE
/// they would take predicate locks, over which the application's transactions fail (40001); at REPEATABLE READ they would fail themselves.
///
/// Only where another is the default: behind pgbouncer in transaction mode the setting stays on a connection that somebody else uses
/// next, and that one may rely on its own.
const READ_COMMITTED: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false) \
  WHERE current_setting('default_transaction_isolation') <> 'read committed'";

impl<P: Sessions<Pg>> PostgresStore<P> {
    /// An outbox reached through `pool`; the relay says under which names.
    pub fn new(pool: P) -> Self {
        let names = TableNames::default();
        let connections = Connections::new(pool, Some(READ_COMMITTED.into()))
            .renewed_by("DISCARD PLANS", POSTGRES_PLAN_AGE_MAX)
            .cautious_by(cautious_begin(STATEMENT_TIMEOUT));
        let (texts, lane_texts, half_texts) = (Texts::new(&names), LaneTexts::new(&names), half_texts(&names));
        let (admin_texts, history_texts) = (AdminTexts::new(&names), HistoryTexts::new(&names));
        let pause_table = PauseTable::default();
        Self {
            connections,
            texts,
            lane_texts,
            half_texts,
            admin_texts,
            history_texts,
            pause_table,
            notices: None,
            names,
        }
    }

    /// Lets relays of ordered topics wake each other by NOTIFY, so that a commit to a lane which another process owns is sent at
    /// once and not at that one's next poll. docs/ordering.md has what it costs and what it needs.
    ///
    /// Each relay that is to hear needs it, and each that is to be heard. `connection` is one more to the server, beside the pool's;
    /// where it cannot be had, or hears nothing, the poll does it all.
    #[must_use]
    pub fn notices_over(mut self, connection: NoticeConnection) -> Self {
        self.notices = Some(NoticeSide::new(connection, &self.names));
        self
    }

    /// Bounds each call, by default to [`STATEMENT_TIMEOUT`](crate::limits::STATEMENT_TIMEOUT). The server gives up a little sooner, a lock
    /// after four fifths of it.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.connections = self.connections.with_deadline(timeout).cautious_by(cautious_begin(timeout));
        self
    }
}

/// What the server is told in each transaction of a store, so that it gives a statement up before the caller does: a lock first, so that
/// it is told apart from a database that is slow. For the transaction only: what a session is told, pgbouncer in transaction mode
/// passes on to sessions of the application.
fn time_outs(deadline: Duration) -> String {
    let (statement, lock) = (deadline * SERVER_STATEMENT_PERCENT / 100, deadline * SERVER_LOCK_PERCENT / 100);
    // Zero is no time-out at all.
    let ms = |timeout: Duration| if planted(Mistake::StatementLeftBehind) { 0 } else { millis(timeout).max(1) };
    format!("SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}", ms(statement), ms(lock))
}

/// Begins the transaction of a single statement.
fn cautious_begin(deadline: Duration) -> Arc<str> {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; {}; SET LOCAL idle_in_transaction_session_timeout = 2000",
        time_outs(deadline)
    )
    .into()
}

impl<P: Sessions<Pg>> fmt::Debug for PostgresStore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, names, pause_table, .. } = self;
        let mut store = f.debug_struct("PostgresStore");
        store.field("connections", connections).field("names", names).field("pause_table", pause_table);
        store.finish_non_exhaustive()
    }
}
