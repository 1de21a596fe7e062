//! Connections that a store opens itself, to an address.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(any(feature = "sqlite", all(feature = "libpq", not(feature = "async"))))]
use super::blocking::{Blocking, Holder};
#[cfg(all(feature = "async", any(feature = "postgres", feature = "mysql")))]
use super::pooled::{Handle, Pooled};
use super::sealed::Sealed;
use super::{ConnectionPool, OpenError};
use crate::store::error::StoreError;
#[cfg(any(
    all(feature = "postgres", any(feature = "async", feature = "libpq")),
    all(feature = "mysql", feature = "async")
))]
use crate::store::secrets::redacted;

/// The connections of a store that opens its own, as [`PostgresStore::connect`](super::super::SqlStore::connect) does.
///
/// It needs no pool and no pool feature. The store opens a connection when a call finds none free, and keeps it. It has as many
/// as it makes calls at once: six with the default limits and one transport, and up to three more for each ordered topic. It closes
/// connections that were idle for a minute.
pub struct ManagedConnections {
    url: Arc<str>,
    /// Its address, without secrets.
    place: String,
}

impl ManagedConnections {
    /// To a server, whose URL begins with one of `schemes`.
    #[cfg(any(
        all(feature = "postgres", any(feature = "async", feature = "libpq")),
        all(feature = "mysql", feature = "async")
    ))]
    pub(crate) fn to_server(url: impl Into<Arc<str>>, schemes: &[&str]) -> Result<Self, StoreError> {
        let url: Arc<str> = url.into();
        let (_, rest) = url.split_once("://").filter(|(scheme, _)| schemes.contains(scheme)).ok_or_else(|| {
            StoreError::Url(format!(
                "the database's URL must begin with {}://: give it as {}://user:password@host/database",
                schemes.join(":// or "),
                schemes[0]
            ))
        })?;
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        if database.is_empty() && !settings.contains("dbname=") {
            return Err(StoreError::Url(format!(
                "the database's URL names the server {host:?} but no database: add /database after the host"
            )));
        }
        let user = login.split(':').next().unwrap_or_default();
        let place = format!("database {database:?} at {host:?} as user {user:?}");
        Ok(Self { url, place })
    }

    /// Refuses a URL that requires TLS, which these connections do not have. Otherwise the driver would fail at each connection.
    #[cfg(all(feature = "postgres", feature = "async"))]
    pub(crate) fn refuse_tls(url: &str) -> Result<(), StoreError> {
        let settings = url.split_once('?').map_or("", |(_, settings)| settings);
        match settings
            .split('&')
            .find(|setting| matches!(*setting, "sslmode=require" | "sslmode=verify-ca" | "sslmode=verify-full"))
        {
            None => Ok(()),
            Some(setting) => Err(StoreError::Url(format!(
                "the database's URL has {setting}, but connect(..) opens connections without TLS: give PostgresStore::new a pool with \
                 TLS, or leave {setting} out"
            ))),
        }
    }

    /// To a file.
    #[cfg(feature = "sqlite")]
    pub(crate) fn to_file(path: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        let url: Arc<str> = path.into();
        if url.is_empty() || url.contains(":memory:") {
            return Err(StoreError::Url(format!(
                "only one connection sees the database {url:?}, but a relay needs several: give the path of a file"
            )));
        }
        let place = format!("the file {url:?}");
        Ok(Self { url, place })
    }

    fn failed(&self, error: &diesel::ConnectionError) -> OpenError {
        let text = error.to_string();
        #[cfg(any(
            all(feature = "postgres", any(feature = "async", feature = "libpq")),
            all(feature = "mysql", feature = "async")
        ))]
        let text = redacted(&text, &self.url);
        format!("{}: {text}", self.place).into()
    }
}

// Its URL holds a password.
impl fmt::Debug for ManagedConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManagedConnections").field(&self.place).finish()
    }
}

impl Sealed for ManagedConnections {}

/// A connection that the store has opened.
#[allow(unreachable_pub, reason = "without a driver no connection is returned")]
pub struct Managed<C>(C);

impl<C> fmt::Debug for Managed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed").finish_non_exhaustive()
    }
}

#[cfg(all(feature = "async", any(feature = "postgres", feature = "mysql")))]
impl<C: diesel_async::AsyncConnection + 'static> Handle for Managed<C> {
    type Connection = C;

    fn connection(&mut self) -> &mut C {
        &mut self.0
    }

    fn discard(self) {}
}

#[cfg(any(feature = "sqlite", all(feature = "libpq", not(feature = "async"))))]
impl<C: diesel::connection::LoadConnection + 'static> Holder for Managed<C> {
    type Connection = C;

    fn connection(&mut self) -> &mut C {
        &mut self.0
    }
}

/// Implements [`ConnectionPool`] over connections of diesel-async.
#[cfg(all(feature = "async", any(feature = "postgres", feature = "mysql")))]
macro_rules! opened_async {
    ($backend:ty, $connection:ty) => {
        impl ConnectionPool<$backend> for ManagedConnections {
            type Session = Pooled<Managed<$connection>>;

            async fn open(&self, _within: Duration) -> Result<Self::Session, OpenError> {
                let opened = <$connection as diesel_async::AsyncConnection>::establish(&self.url).await;
                Ok(Pooled::new(Managed(opened.map_err(|error| self.failed(&error))?)))
            }

            fn is_managed(&self) -> bool {
                true
            }
        }
    };
}

#[cfg(all(feature = "async", feature = "postgres"))]
opened_async!(diesel::pg::Pg, diesel_async::AsyncPgConnection);

#[cfg(all(feature = "async", feature = "mysql"))]
opened_async!(diesel::mysql::Mysql, diesel_async::AsyncMysqlConnection);

/// Implements [`ConnectionPool`] over Diesel's own connections. Each is opened on its own thread, because libpq may wait for ever for a
/// server that accepts and sends nothing. A thread of the runtime would then delay the runtime's shutdown.
#[cfg(any(feature = "sqlite", all(feature = "libpq", not(feature = "async"))))]
macro_rules! opened_sync {
    ($backend:ty, $connection:ty) => {
        impl ConnectionPool<$backend> for ManagedConnections {
            type Session = Blocking<Managed<$connection>>;

            async fn open(&self, _within: Duration) -> Result<Self::Session, OpenError> {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                let url = Arc::clone(&self.url);
                let open = move || drop(sender.send(<$connection as diesel::Connection>::establish(&url)));
                std::thread::Builder::new().name("outbox-connect".into()).spawn(open)?;
                Ok(Blocking::new(Managed(receiver.await?.map_err(|error| self.failed(&error))?)))
            }

            fn is_managed(&self) -> bool {
                true
            }
        }
    };
}

#[cfg(all(feature = "libpq", not(feature = "async")))]
opened_sync!(diesel::pg::Pg, diesel::PgConnection);

#[cfg(feature = "sqlite")]
opened_sync!(diesel::sqlite::Sqlite, diesel::SqliteConnection);

#[cfg(all(
    test,
    any(
        all(feature = "postgres", any(feature = "async", feature = "libpq")),
        all(feature = "mysql", feature = "async")
    )
))]
mod tests {
    use super::*;

    fn place(url: &str) -> Result<String, String> {
        let made = ManagedConnections::to_server(url, &["postgres", "postgresql"]);
        made.map(|own| format!("{own:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for url in [
            "postgres://shop:swordfish@db.local:5433/orders?sslmode=prefer",
            "postgresql://shop:sword/fish@db.local:5433/orders",
            "postgres://shop:sword@fish@db.local:5433/orders",
        ] {
            let place = place(url).expect("an address");
            for shown in ["orders", "db.local:5433", "shop"] {
                assert!(place.contains(shown), "{place}");
            }
            assert!(!place.contains("sword") && !place.contains("fish"), "{place}");
        }
    }

    #[test]
    fn a_wrong_address_is_refused_with_the_remedy() {
        for (url, remedy) in [
            ("mysql://shop:swordfish@db/orders", "postgres://user:password@host/database"),
            ("db.local", "postgres://user:password@host/database"),
            ("host=db password=swordfish", "postgres://user:password@host/database"),
            ("postgres://shop:swordfish@db.local", "/database"),
            ("postgres://shop:swordfish@db.local/", "/database"),
        ] {
            let error = place(url).expect_err("no address");
            assert!(error.contains(remedy) && !error.contains("swordfish"), "{error}");
        }
    }
}
