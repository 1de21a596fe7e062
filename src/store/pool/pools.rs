//! The async pools. They differ in how a connection is taken and how it is closed.

use std::time::Duration;

use diesel::dsl::{AsExprOf, select};
use diesel::query_builder::{QueryFragment, SqlQuery};
use diesel::sql_types::Integer;
use diesel_async::AsyncConnection;
use diesel_async::methods::LoadQuery;
use diesel_async::pooled_connection::PoolableConnection;

use super::pooled::{Handle, Pooled};
use super::sealed::Sealed;
use super::{ConnectionPool, OpenError};
use crate::store::sql::dialect::Dialect;

/// A pool of diesel-async from which a consumer takes its connections.
///
/// Implemented for the pools of deadpool, bb8 and mobc (features of their names). There is nothing to implement or call here.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pool of diesel-async that a consumer can use",
    note = "use the Pool of diesel-async's deadpool, bb8 or mobc module (features `deadpool`, `bb8`, `mobc`)"
)]
#[cfg_attr(
    not(any(feature = "kafka", feature = "rocketmq")),
    allow(dead_code, unreachable_pub, reason = "only consumers use it")
)]
pub trait AsyncPool: Sealed + Clone + Send + Sync + 'static {
    #[doc(hidden)]
    type Handle: Handle;

    #[doc(hidden)]
    fn take(&self) -> impl Future<Output = Result<Self::Handle, OpenError>> + Send;
}

/// Implements [`ConnectionPool`] and [`AsyncPool`] for one pool, with the bounds that diesel-async requires of its connections.
macro_rules! connection_pool {
    (
        $pool:ident, $handle:ty, |$this:ident| $open:expr, |$taken:ident| $discard:expr,
        |$sized:ident| $size_max:expr, |$used:ident| $in_use:expr $(,)?
    ) => {
        impl<C> Sealed for $pool<C>
        where
            C: PoolableConnection + 'static,
            for<'a> select<AsExprOf<i32, Integer>>: LoadQuery<'a, C, i32>,
            SqlQuery: QueryFragment<C::Backend>,
        {
        }

        impl<DB, C> ConnectionPool<DB> for $pool<C>
        where
            DB: Dialect,
            C: PoolableConnection + AsyncConnection<Backend = DB> + 'static,
            for<'a> select<AsExprOf<i32, Integer>>: LoadQuery<'a, C, i32>,
            SqlQuery: QueryFragment<DB>,
        {
            type Session = Pooled<$handle>;

            async fn open(&self, _within: Duration) -> Result<Self::Session, OpenError> {
                // Not these pools' own time-outs, which need a runtime named at construction: the caller drops this future.
                let $this = self;
                Ok(Pooled::new($open.await?))
            }

            fn size_max(&self) -> Option<usize> {
                let $sized = self;
                $size_max
            }

            fn in_use(&self) -> Option<usize> {
                let $used = self;
                $in_use
            }
        }

        impl<C> AsyncPool for $pool<C>
        where
            C: PoolableConnection + 'static,
            for<'a> select<AsExprOf<i32, Integer>>: LoadQuery<'a, C, i32>,
            SqlQuery: QueryFragment<C::Backend>,
        {
            type Handle = $handle;

            async fn take(&self) -> Result<Self::Handle, OpenError> {
                let $this = self;
                Ok($open.await?)
            }
        }

        impl<C> Handle for $handle
        where
            C: PoolableConnection + 'static,
            for<'a> select<AsExprOf<i32, Integer>>: LoadQuery<'a, C, i32>,
            SqlQuery: QueryFragment<C::Backend>,
        {
            type Connection = C;

            fn connection(&mut self) -> &mut C {
                &mut *self
            }

            fn discard(self) {
                let $taken = self;
                $discard
            }
        }
    };
}

#[cfg(feature = "deadpool")]
mod deadpool {
    use diesel_async::pooled_connection::deadpool::{Object, Pool};

    use super::*;

    connection_pool!(
        Pool,
        Object<C>,
        |pool| pool.get(),
        |object| drop(Object::take(object)),
        |pool| Some(pool.status().max_size),
        |pool| Some(pool.status()).map(|status| status.size.saturating_sub(status.available)),
    );
}

#[cfg(feature = "bb8")]
mod bb8 {
    use diesel_async::TransactionManager as _;
    use diesel_async::pooled_connection::bb8::{Pool, PooledConnection};

    use super::*;

    connection_pool!(
        Pool,
        PooledConnection<'static, C>,
        |pool| pool.get_owned(),
        |connection| {
            let mut connection = connection;
            // bb8 cannot remove a connection, but closes one at once that is marked as broken.
            C::TransactionManager::transaction_manager_status_mut(&mut *connection).set_in_error();
        },
        |pool| usize::try_from(pool.config().max_size).ok(),
        |pool| {
            let state = pool.state();
            usize::try_from(state.connections.saturating_sub(state.idle_connections)).ok()
        },
    );
}

#[cfg(feature = "mobc")]
mod mobc {
    use diesel_async::pooled_connection::mobc::{Pool, PooledConnection};
    use futures_util::FutureExt as _;

    use super::*;

    // Its state is behind an async lock, which may be held for a moment.
    connection_pool!(
        Pool,
        PooledConnection<C>,
        |pool| pool.get(),
        |connection| drop(connection.into_inner()),
        |pool| {
            let max = usize::try_from(pool.state().now_or_never()?.max_open).ok();
            max.filter(|max| *max > 0)
        },
        |pool| usize::try_from(pool.state().now_or_never()?.in_use).ok(),
    );
}
