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
mod pooler;
mod port;
mod rows;
#[cfg(any(feature = "async", feature = "libpq"))]
mod secrets;
mod texts;

use std::fmt;
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
use crate::limits::{POSTGRES_PLAN_AGE_MAX, SERVER_LOCK_PERCENT, SERVER_STATEMENT_PERCENT};
use crate::naming::TableNames;
use crate::planted::{Mistake, planted};

/// An outbox in PostgreSQL (13 or later).
///
/// Works through sync (r2d2) and async (diesel-async) pools alike, see [`Sessions`], and behind pgbouncer in session mode; in
/// transaction mode with [`transaction_pooling`](Self::transaction_pooling).
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
/// Only where another is the default: behind a pooler that nobody told of, the setting stays in a session that somebody else uses next,
/// and that one may rely on its own.
const READ_COMMITTED: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false) \
  WHERE current_setting('default_transaction_isolation') <> 'read committed'";

impl<P: Sessions<Pg>> PostgresStore<P> {
    /// An outbox reached through `pool`; the relay says under which names.
    pub fn new(pool: P) -> Self {
        let names = TableNames::default();
        let connections =
            Connections::new(pool, Some(READ_COMMITTED.into())).renewed_by("DISCARD PLANS", POSTGRES_PLAN_AGE_MAX);
        let (texts, lane_texts, half_texts) = (Texts::new(&names), LaneTexts::new(&names), half_texts(&names));
        let (admin_texts, history_texts) = (AdminTexts::new(&names), HistoryTexts::new(&names));
        let pause_table = PauseTable::default();
        let store = Self {
            connections,
            texts,
            lane_texts,
            half_texts,
            admin_texts,
            history_texts,
            pause_table,
            notices: None,
            names,
        };
        store.with_single_begin()
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

    /// For a relay or an [`Admin`](crate::admin::Admin) behind pgbouncer in transaction mode, or another pooler that gives each
    /// transaction a session of its own choice; without it a relay there does not start. It needs no support for prepared statements.
    ///
    /// Each statement runs in a transaction, which costs two more round trips, and is planned anew. Nothing is set on a session for
    /// longer than a transaction. What the pool itself sends needs care, too: docs/pgbouncer.md has which pool with which settings.
    ///
    /// Better, where it can be had, is the server's own address for the relay.
    ///
    /// ```no_run
    /// # #[cfg(feature = "r2d2")] {
    /// use diesel::PgConnection;
    /// use diesel::r2d2::{ConnectionManager, Pool};
    /// use diesel_outbox::store::PostgresStore;
    ///
    /// let manager = ConnectionManager::<PgConnection>::new("postgres://pgbouncer:6432/shop");
    /// let pool = Pool::builder().max_size(6).test_on_check_out(false).build(manager)?;
    /// let store = PostgresStore::new(pool).transaction_pooling();
    /// # let _ = store;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn transaction_pooling(mut self) -> Self {
        self.connections = self.connections.sharing_sessions();
        self.with_single_begin()
    }

    /// Bounds each call, by default to [`STATEMENT_TIMEOUT`](crate::limits::STATEMENT_TIMEOUT). The server gives up a little sooner, a lock
    /// after four fifths of it.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.connections = self.connections.with_deadline(timeout);
        self.with_single_begin()
    }

    /// After a change of what the text of a single statement's BEGIN depends on.
    fn with_single_begin(mut self) -> Self {
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {}; SET LOCAL idle_in_transaction_session_timeout = 2000",
            self.local_settings()
        );
        self.connections = self.connections.cautious_by(begin.into());
        self
    }

    /// What the server is told in each transaction: the time-outs, and behind a pooler to plan anew. It keeps statements prepared by
    /// itself (pgbouncer from 1.21 on), and with them plans that were made for another size of the table.
    fn local_settings(&self) -> String {
        let time_outs = time_outs(self.connections.deadline());
        match self.connections.shares_sessions() {
            true => format!("{time_outs}; SET LOCAL plan_cache_mode = force_custom_plan"),
            false => time_outs,
        }
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

impl<P: Sessions<Pg>> fmt::Debug for PostgresStore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, names, pause_table, .. } = self;
        let mut store = f.debug_struct("PostgresStore");
        store.field("connections", connections).field("names", names).field("pause_table", pause_table);
        store.finish_non_exhaustive()
    }
}
