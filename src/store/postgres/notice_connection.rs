//! The connection over which notices are heard, of diesel-async or of libpq.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
#[cfg(any(feature = "async", feature = "libpq"))]
use std::sync::Arc;

#[cfg(any(feature = "async", feature = "libpq"))]
use async_trait::async_trait;
#[cfg(any(feature = "async", feature = "libpq"))]
use diesel::result::QueryResult;
#[cfg(any(feature = "async", feature = "libpq"))]
use diesel::{ConnectionResult, pg::PgNotification};

use crate::store::{Notices, StoreError};

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn Notices>, StoreError>> + Send>>;

/// How a relay opens the connection over which it hears notices. For
/// [`PostgresStore::notices_over`](super::PostgresStore::notices_over).
///
/// It has to reach the server itself, or pgbouncer in session mode: LISTEN belongs to a session, and in transaction mode nothing
/// is heard. Nothing else depends on it, and the relay says in its log that it hears nothing.
pub struct NoticeConnection(Box<dyn Fn(&str) -> Opening + Send + Sync>);

impl NoticeConnection {
    /// A connection of diesel-async to `url`, without TLS.
    ///
    /// ```no_run
    /// # #[cfg(feature = "deadpool")] {
    /// use diesel_async::AsyncPgConnection;
    /// use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool::Pool};
    /// use diesel_outbox::store::{NoticeConnection, PostgresStore};
    ///
    /// let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new("postgres://pgbouncer/shop")).build()?;
    /// let store = PostgresStore::new(pool).notices_over(NoticeConnection::to("postgres://database/shop"));
    /// # let _ = store;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "async")]
    pub fn to(url: impl Into<Arc<str>>) -> Self {
        use diesel_async::AsyncConnection as _;
        let url = url.into();
        Self::opened_by(move || {
            let url = Arc::clone(&url);
            async move { diesel_async::AsyncPgConnection::establish(&url).await }
        })
    }

    /// A connection of diesel-async that `open` makes, with TLS for instance. Called again after each loss.
    ///
    /// It has to be one that diesel-async drives itself (`establish`, `try_from_client_and_connection`): of others it passes no
    /// notices on.
    #[cfg(feature = "async")]
    pub fn opened_by<F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ConnectionResult<diesel_async::AsyncPgConnection>> + Send + 'static,
    {
        use diesel_async::SimpleAsyncConnection as _;
        Self(Box::new(move |channel| {
            let (opening, listen) = (open(), format!("LISTEN {channel}"));
            Box::pin(async move {
                let mut connection = opening.await.map_err(unreachable)?;
                connection.batch_execute(&listen).await.map_err(unreachable)?;
                Ok(Box::new(Driven(connection)) as Box<dyn Notices>)
            })
        }))
    }

    /// A connection of libpq to `url`, for applications without diesel-async: with everything that libpq reads there, TLS included.
    ///
    /// libpq cannot say that there is something to read, so it is asked every ten milliseconds, without a round trip.
    ///
    /// ```no_run
    /// use diesel_outbox::store::NoticeConnection;
    /// let notices = NoticeConnection::libpq("postgres://database/shop?sslmode=require");
    /// # let _ = notices;
    /// ```
    #[cfg(feature = "libpq")]
    pub fn libpq(url: impl Into<Arc<str>>) -> Self {
        use diesel::connection::{Connection as _, SimpleConnection as _};
        let url = url.into();
        Self(Box::new(move |channel| {
            let (url, listen) = (Arc::clone(&url), format!("LISTEN {channel}"));
            Box::pin(async move {
                let opened = tokio::task::spawn_blocking(move || {
                    let mut connection = diesel::PgConnection::establish(&url).map_err(unreachable)?;
                    connection.batch_execute(&listen).map_err(unreachable)?;
                    Ok(Box::new(Polled(connection)) as Box<dyn Notices>)
                });
                opened.await.map_err(unreachable)?
            })
        }))
    }

    /// Opens one that listens to `channel`.
    pub(super) fn open(&self, channel: &str) -> Opening {
        (self.0)(channel)
    }
}

impl fmt::Debug for NoticeConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its URL holds a password.
        f.debug_struct("NoticeConnection").finish_non_exhaustive()
    }
}

#[cfg(any(feature = "async", feature = "libpq"))]
fn unreachable(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unreachable(error.into())
}

#[cfg(any(feature = "async", feature = "libpq"))]
fn payload(heard: QueryResult<PgNotification>) -> Result<String, StoreError> {
    heard.map(|notification| notification.payload).map_err(unreachable)
}

#[cfg(feature = "async")]
struct Driven(diesel_async::AsyncPgConnection);

#[cfg(feature = "async")]
#[async_trait]
impl Notices for Driven {
    async fn next(&mut self) -> Result<String, StoreError> {
        use futures_util::StreamExt as _;
        let heard = std::pin::pin!(self.0.notifications_stream()).next().await;
        payload(heard.ok_or_else(|| StoreError::Unreachable("the connection for notices was closed".into()))?)
    }
}

#[cfg(feature = "async")]
impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driven").finish_non_exhaustive()
    }
}

#[cfg(feature = "libpq")]
struct Polled(diesel::PgConnection);

#[cfg(feature = "libpq")]
#[async_trait]
impl Notices for Polled {
    async fn next(&mut self) -> Result<String, StoreError> {
        loop {
            // Takes what has come, and waits for nothing: no thread is needed for it.
            let heard = self.0.notifications_iter().next();
            match heard {
                Some(heard) => return payload(heard),
                None => tokio::time::sleep(crate::limits::NOTICE_POLL_INTERVAL).await,
            }
        }
    }
}

#[cfg(feature = "libpq")]
impl fmt::Debug for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled").finish_non_exhaustive()
    }
}
