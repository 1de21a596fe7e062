//! The connection that receives notices, of diesel-async or of libpq.

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
use diesel::{ConnectionError, pg::PgNotification};

#[cfg(any(feature = "async", feature = "libpq"))]
use crate::store::secrets::redacted;
use crate::store::{NoticeStream, StoreError};

type OpenFuture = Pin<Box<dyn Future<Output = Result<Box<dyn NoticeStream>, StoreError>> + Send>>;

/// How a relay opens the connection that receives notices. For
/// [`PostgresStore::notice_connection`](crate::store::SqlStore::notice_connection).
///
/// It must reach the server itself, or pgbouncer in session mode: LISTEN belongs to a session, so in transaction mode no notice
/// arrives. Nothing else depends on it, and the relay logs if it receives none.
pub struct NoticeConnection(Box<dyn Fn(&str) -> OpenFuture + Send + Sync>);

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
    /// let store = PostgresStore::new(pool).notice_connection(NoticeConnection::new("postgres://database/shop"));
    /// # let _ = store;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "async")]
    pub fn new(url: impl Into<Arc<str>>) -> Self {
        use diesel_async::AsyncConnection as _;
        let url = url.into();
        Self::from_fn(move || {
            let url = Arc::clone(&url);
            async move {
                let opened = diesel_async::AsyncPgConnection::establish(&url).await;
                opened.map_err(|error| ConnectionError::BadConnection(redacted(&error.to_string(), &url)))
            }
        })
    }

    /// A diesel-async connection that `open` makes, for example with TLS. Called again after each loss.
    ///
    /// diesel-async must drive the connection itself (`establish`, `try_from_client_and_connection`): for others it passes on no
    /// notices.
    ///
    /// # Errors
    /// None here. If `open` fails, or takes longer than the store's `statement_timeout`, no notices arrive until a later call:
    /// after a second, and up to a minute. Its error is logged as it is, so it should contain no password.
    #[cfg(feature = "async")]
    pub fn from_fn<F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = diesel::ConnectionResult<diesel_async::AsyncPgConnection>> + Send + 'static,
    {
        use diesel_async::SimpleAsyncConnection as _;
        Self(Box::new(move |channel| {
            let (opening, listen) = (open(), format!("LISTEN {channel}"));
            Box::pin(async move {
                let mut connection = opening.await.map_err(unreachable)?;
                connection.batch_execute(&listen).await.map_err(unreachable)?;
                Ok(Box::new(AsyncNoticeStream(connection)) as Box<dyn NoticeStream>)
            })
        }))
    }

    /// A libpq connection to `url`, for applications without diesel-async. libpq reads all of the URL, including TLS.
    ///
    /// libpq cannot report that there is something to read, so it is polled every ten milliseconds, without a round trip. It opens
    /// one connection at a time, on a thread of its own. Set a `connect_timeout`: without it, libpq waits forever for a server that
    /// accepts and then stays silent, and no notices arrive meanwhile.
    ///
    /// ```no_run
    /// use diesel_outbox::store::NoticeConnection;
    /// let notices = NoticeConnection::libpq("postgres://database/shop?sslmode=require&connect_timeout=10");
    /// # let _ = notices;
    /// ```
    #[cfg(feature = "libpq")]
    pub fn libpq(url: impl Into<Arc<str>>) -> Self {
        use diesel::connection::{Connection as _, SimpleConnection as _};
        let (url, connector): (Arc<str>, _) = (url.into(), Arc::new(LibpqConnector::default()));
        Self(Box::new(move |channel| {
            let (url, connector, listen) = (Arc::clone(&url), Arc::clone(&connector), format!("LISTEN {channel}"));
            let open = move || {
                let mut connection =
                    diesel::PgConnection::establish(&url).map_err(|error| without_secrets(&error, &url))?;
                connection.batch_execute(&listen).map_err(unreachable)?;
                Ok(Box::new(LibpqNoticeStream(connection)) as Box<dyn NoticeStream>)
            };
            Box::pin(async move { connector.open(open).await })
        }))
    }

    /// Opens a connection that listens to `channel`.
    pub(super) fn open(&self, channel: &str) -> OpenFuture {
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
fn payload(received: QueryResult<PgNotification>) -> Result<String, StoreError> {
    received.map(|notification| notification.payload).map_err(unreachable)
}

#[cfg(feature = "async")]
struct AsyncNoticeStream(diesel_async::AsyncPgConnection);

#[cfg(feature = "async")]
#[async_trait]
impl NoticeStream for AsyncNoticeStream {
    async fn next(&mut self) -> Result<String, StoreError> {
        use futures_util::StreamExt as _;
        let received = std::pin::pin!(self.0.notifications_stream()).next().await;
        payload(received.ok_or_else(|| StoreError::Unreachable("the server closed the connection for notices".into()))?)
    }
}

#[cfg(feature = "async")]
impl fmt::Debug for AsyncNoticeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncNoticeStream").finish_non_exhaustive()
    }
}

/// Opens one connection at a time: a caller may stop waiting, but libpq cannot be told to.
#[cfg(feature = "libpq")]
#[derive(Default)]
struct LibpqConnector(tokio::sync::Mutex<Option<tokio::sync::oneshot::Receiver<OpenResult>>>);

#[cfg(feature = "libpq")]
type OpenResult = Result<Box<dyn NoticeStream>, StoreError>;

#[cfg(feature = "libpq")]
impl LibpqConnector {
    /// The result of `open`, or of an earlier call that is still running. It runs on its own thread: it would occupy one of the
    /// runtime's, which waits for them when it ends.
    ///
    /// Cancel safe: the next call waits for the same result.
    async fn open(&self, open: impl FnOnce() -> OpenResult + Send + 'static) -> OpenResult {
        let mut pending = self.0.lock().await;
        let receiver = match pending.take() {
            Some(receiver) => receiver,
            None => {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                let thread = std::thread::Builder::new().name("outbox-notices".into());
                // If nobody waits any more, the connection is closed.
                thread.spawn(move || drop(sender.send(open()))).map_err(unreachable)?;
                receiver
            }
        };
        let opened = pending.insert(receiver).await;
        *pending = None;
        opened.unwrap_or_else(|_| Err(StoreError::Unreachable("the thread that opens connections panicked".into())))
    }
}

#[cfg(feature = "libpq")]
fn without_secrets(error: &ConnectionError, url: &str) -> StoreError {
    StoreError::Unreachable(redacted(&error.to_string(), url).into())
}

#[cfg(feature = "libpq")]
struct LibpqNoticeStream(diesel::PgConnection);

#[cfg(feature = "libpq")]
#[async_trait]
impl NoticeStream for LibpqNoticeStream {
    async fn next(&mut self) -> Result<String, StoreError> {
        loop {
            // Takes what has arrived, and waits for nothing: it needs no thread.
            let received = self.0.notifications_iter().next();
            match received {
                Some(received) => return payload(received),
                None => tokio::time::sleep(crate::limits::NOTICE_POLL_INTERVAL).await,
            }
        }
    }
}

#[cfg(feature = "libpq")]
impl fmt::Debug for LibpqNoticeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibpqNoticeStream").finish_non_exhaustive()
    }
}
