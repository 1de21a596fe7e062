//! Opens the database, whichever it is.

#[cfg(feature = "sqlite")]
use std::path::Path;
use std::time::Duration;

use diesel_outbox::Outbox;
use diesel_outbox::admin::Admin;
#[cfg(feature = "mysql")]
use diesel_outbox::store::MysqlStore;
#[cfg(feature = "postgres")]
use diesel_outbox::store::PostgresStore;
#[cfg(feature = "sqlite")]
use diesel_outbox::store::SqliteStore;

use crate::address::Address;
use crate::arguments::Options;
use crate::error::Error;

/// The default of the stores.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The address that was given.
pub(crate) fn address(options: &Options) -> Result<Address, Error> {
    let given = options.database_url.as_deref().map(Address::parse);
    given.unwrap_or_else(|| Err(Error::usage("no database is given: set DATABASE_URL, or add --database-url")))
}

/// The handle that manages the outbox at an address. Its first call connects.
pub(crate) fn admin(outbox: &Outbox, address: &Address, options: &Options) -> Result<Admin, Error> {
    let timeout = options.statement_timeout.unwrap_or(STATEMENT_TIMEOUT);
    if options.transaction_pooling && !matches!(address, Address::Postgres(_)) {
        return Err(Error::usage("--transaction-pooling is for PostgreSQL behind pgbouncer"));
    }
    match address {
        #[cfg(feature = "postgres")]
        Address::Postgres(url) => {
            let store = PostgresStore::connect(url.as_str())?.statement_timeout(timeout);
            Ok(outbox.admin(if options.transaction_pooling { store.transaction_pooling() } else { store }))
        }
        #[cfg(feature = "mysql")]
        Address::Mysql(url) => Ok(outbox.admin(MysqlStore::connect(url.as_str())?.statement_timeout(timeout))),
        #[cfg(feature = "sqlite")]
        Address::Sqlite(path) => {
            let store = SqliteStore::connect(path_text(path)?)?;
            // Otherwise SQLite would create it.
            if !path.is_file() {
                return Err(Error::failed(format!(
                    "there is no file {}: `outbox migrate up` creates one",
                    path.display()
                )));
            }
            Ok(outbox.admin(store.statement_timeout(timeout)))
        }
        #[allow(unreachable_patterns, reason = "with all features there is none left")]
        _ => Err(unsupported(address)),
    }
}

#[cfg(feature = "sqlite")]
pub(crate) fn path_text(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::usage(format!("the path {} is not UTF-8", path.display())))
}

#[allow(dead_code, reason = "with all features it is not called")]
pub(crate) fn unsupported(address: &Address) -> Error {
    Error::usage(format!("this program was built without the feature for {}", address.kind()))
}
