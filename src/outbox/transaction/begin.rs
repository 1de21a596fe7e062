//! BEGIN, followed by a flag. The last statement checks the flag to see whether the transaction is still the same one.

use std::any::type_name;
use std::num::NonZeroU32;

use diesel::connection::{
    AnsiTransactionManager, Connection, TransactionDepthChange, TransactionManager, TransactionManagerStatus,
};
use diesel::result::{Error, QueryResult};

use crate::enqueue::{Dialect, EnqueueError};
use crate::hook::{Conn, Depth, SyncConn, announce_begin, statements};
use crate::outbox::write::error_after_rollback;

/// BEGIN or SAVEPOINT in the form of Diesel's transaction managers, and the flag.
///
/// Both are one text, which is one round trip. What a manager of another crate sends is unknown: it begins by itself,
/// and the flag is a separate statement.
pub(crate) struct Begin {
    pub(crate) depth: NonZeroU32,
    pub(crate) sql: String,
}

impl Begin {
    /// What to send in place of the transaction manager `M`; `None` if that begins by itself.
    pub(crate) fn replacing<M, B: Dialect>(conn: &mut impl Conn, diesel_manager: &str) -> QueryResult<Option<Self>> {
        let depth = Depth::of(conn)?.depth;
        let Some(flag_sql) = B::transaction_flag_sql(depth + 1)
            .filter(|_| B::FLAG_WITH_BEGIN && is_diesel_manager(type_name::<M>(), diesel_manager))
        else {
            return Ok(None);
        };
        let sql = match depth {
            0 => format!("BEGIN; {flag_sql}"),
            _ => format!("SAVEPOINT diesel_savepoint_{depth}; {flag_sql}"),
        };
        Ok(Some(Self { depth: NonZeroU32::MIN.saturating_add(depth), sql }))
    }

    pub(crate) fn announce(&self, conn: &mut impl Conn) {
        announce_begin(conn, self.depth);
    }

    /// Counts the transaction as open, also after an error: BEGIN may have succeeded without its flag, and then a
    /// rollback ends it. A savepoint's error leaves the rollback to the outer transaction.
    pub(crate) fn enter(&self, conn: &mut impl Conn, begun: QueryResult<()>) -> QueryResult<QueryResult<()>> {
        if begun.is_err() && self.depth > NonZeroU32::MIN {
            return begun.map(Ok);
        }
        match conn.status() {
            TransactionManagerStatus::Valid(open) => {
                open.change_transaction_depth(TransactionDepthChange::IncreaseDepth)?
            }
            TransactionManagerStatus::InError => return Err(Error::BrokenTransactionManager),
        }
        Ok(begun)
    }
}

/// By the type's name: `TypeId` requires `'static`, which connections with a lifetime are not. An unknown name only
/// costs a round trip.
pub(super) fn is_diesel_manager(manager: &str, diesel_manager: &str) -> bool {
    let inner = manager.strip_prefix("diesel::r2d2::PoolTransactionManager<").and_then(|name| name.strip_suffix('>'));
    inner.unwrap_or(manager) == diesel_manager
}

/// The hook must observe a deadlock if the database does not report it later.
pub(super) fn install_hook_if_needed<B: Dialect>(conn: &mut impl Conn) {
    if B::DEADLOCK_ENDS_TRANSACTION {
        statements(conn);
    }
}

/// Begins a transaction, or a savepoint inside one.
pub(super) fn begin<C>(conn: &mut C) -> QueryResult<Depth>
where
    C: Connection,
    C::Backend: Dialect,
{
    install_hook_if_needed::<C::Backend>(&mut SyncConn(conn));
    let diesel_manager = type_name::<AnsiTransactionManager>();
    let begin = Begin::replacing::<C::TransactionManager, C::Backend>(&mut SyncConn(conn), diesel_manager)?;
    let marked = if let Some(begin) = begin {
        begin.announce(&mut SyncConn(conn));
        let begun = conn.batch_execute(&begin.sql);
        begin.enter(&mut SyncConn(conn), begun)?
    } else {
        C::TransactionManager::begin_transaction(conn)?;
        let at = Depth::of(&mut SyncConn(conn))?;
        C::Backend::transaction_flag_sql(at.depth).map_or(Ok(()), |flag_sql| conn.batch_execute(&flag_sql))
    };
    match marked {
        Ok(()) => Depth::of(&mut SyncConn(conn)),
        Err(error) => Err(after_rollback(error, C::TransactionManager::rollback_transaction(conn))),
    }
}

/// As [`error_after_rollback`]; but a lost transaction has nothing to roll back.
pub(super) fn after_rollback(error: Error, rolled_back: QueryResult<()>) -> Error {
    match EnqueueError::of(&error) {
        Some(EnqueueError::TransactionLost { .. }) => error,
        _ => error_after_rollback(error, rolled_back),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Managers are known by name. If a new version of Diesel moves them, it costs a round trip, and this test fails.
    #[test]
    fn diesels_managers_are_known() {
        let diesel_manager = type_name::<AnsiTransactionManager>();
        assert!(is_diesel_manager(diesel_manager, diesel_manager));
        #[cfg(feature = "r2d2")]
        assert!(is_diesel_manager(
            type_name::<diesel::r2d2::PoolTransactionManager<AnsiTransactionManager>>(),
            diesel_manager
        ));
        assert!(!is_diesel_manager("mine::AnsiTransactionManager", diesel_manager));
    }

    #[test]
    fn the_caller_gets_a_transaction_lost_error() {
        let lost = || Error::from(EnqueueError::TransactionLost { topic: "orders".into() });
        let error = after_rollback(lost(), Err(Error::NotInTransaction));
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::TransactionLost { .. })));
        assert!(matches!(after_rollback(Error::NotFound, Err(Error::NotInTransaction)), Error::NotInTransaction));
        assert!(matches!(after_rollback(Error::NotFound, Err(Error::BrokenTransactionManager)), Error::NotFound));
    }
}
