//! A person who releases what is parked, again and again.

use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::ledger;

/// How often they look.
const INTERVAL: Duration = Duration::from_secs(2);

/// Releases until it is dropped.
#[derive(Debug)]
pub(crate) struct Releaser(JoinHandle<()>);

impl Releaser {
    /// Releases what consumers of this run have parked, in the database of this URL.
    pub(crate) fn start(url: String, run: String) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // While the database is down, nothing can be released.
                if let Ok(mut connection) = AsyncPgConnection::establish(&url).await
                    && let Err(error) = ledger::release_parked(&mut connection, &run).await
                {
                    eprintln!("releasing parked records again in {INTERVAL:?}: {error:#}");
                }
                sleep(INTERVAL).await;
            }
        }))
    }
}

impl Drop for Releaser {
    fn drop(&mut self) {
        self.0.abort();
    }
}
