use diesel_async::AsyncConnection;

use super::connection_async::AsyncTransaction;

/// A diesel-async connection that [`Outbox::transaction_async`](crate::Outbox::transaction_async) accepts: the
/// connection itself, or a pooled one.
///
/// Implemented for diesel-async's connections and for those of its bb8, deadpool and mobc pools. Your own wrapper needs
/// two lines:
///
/// ```
/// # #[cfg(feature = "postgres")] {
/// use diesel_async::AsyncPgConnection;
/// use diesel_outbox::TransactionConnection;
///
/// struct Mine(AsyncPgConnection);
///
/// impl TransactionConnection for Mine {
///     type Inner = AsyncPgConnection;
///     fn inner(&mut self) -> &mut AsyncPgConnection { &mut self.0 }
/// }
/// # }
/// ```
// An associated type, instead of the pooled connection itself inside `AsyncTransaction`: with a type there that may
// have lifetimes, rustc breaks callers' incremental builds ("unstable fingerprints for evaluate_obligation", seen with 1.95).
#[diagnostic::on_unimplemented(
    message = "`transaction_async` does not know the connection `{Self}`",
    note = "pass the connection inside (`&mut *conn`), or implement `TransactionConnection` for the wrapper"
)]
pub trait TransactionConnection: Send {
    /// The connection inside.
    type Inner: AsyncConnection + 'static;

    /// The connection inside.
    fn inner(&mut self) -> &mut Self::Inner;
}

#[cfg(feature = "mysql")]
impl TransactionConnection for diesel_async::AsyncMysqlConnection {
    type Inner = Self;

    fn inner(&mut self) -> &mut Self {
        self
    }
}

#[cfg(feature = "postgres")]
impl TransactionConnection for diesel_async::AsyncPgConnection {
    type Inner = Self;

    fn inner(&mut self) -> &mut Self {
        self
    }
}

#[cfg(feature = "sqlite")]
impl<C, S> TransactionConnection for diesel_async::sync_connection_wrapper::SyncConnectionWrapper<C, S>
where
    Self: AsyncConnection + 'static,
{
    type Inner = Self;

    fn inner(&mut self) -> &mut Self {
        self
    }
}

impl<C: AsyncConnection + 'static> TransactionConnection for AsyncTransaction<'_, C> {
    type Inner = C;

    fn inner(&mut self) -> &mut C {
        self.connection()
    }
}

#[cfg(any(feature = "bb8", feature = "deadpool", feature = "mobc"))]
macro_rules! pooled {
    ($pooled:ty) => {
        impl<C> TransactionConnection for $pooled
        where
            C: diesel_async::pooled_connection::PoolableConnection + 'static,
            for<'q> diesel::dsl::select<diesel::dsl::AsExprOf<i32, diesel::sql_types::Integer>>:
                diesel_async::methods::LoadQuery<'q, C, i32>,
            diesel::query_builder::SqlQuery: diesel::query_builder::QueryFragment<C::Backend>,
        {
            type Inner = C;

            fn inner(&mut self) -> &mut C {
                self
            }
        }
    };
}

#[cfg(feature = "bb8")]
pooled!(diesel_async::pooled_connection::bb8::PooledConnection<'_, C>);
#[cfg(feature = "deadpool")]
pooled!(diesel_async::pooled_connection::deadpool::Object<C>);
#[cfg(feature = "mobc")]
pooled!(diesel_async::pooled_connection::mobc::PooledConnection<C>);
