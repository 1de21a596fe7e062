//! What people do to messages beside running relays: on each database, by the async handle and by the blocking one.

mod history;
mod letters;
mod load;
mod two_relays;
mod waiting;
mod yard;

/// Asks either handle in the same way.
macro_rules! ask {
    ($yard:expr, $method:ident($($argument:expr),*)) => {
        match $yard.handle {
            Handle::Async(ref admin) => admin.$method($($argument),*).await,
            Handle::Blocking(admin) => {
                tokio::task::block_in_place(|| admin.run(async |admin| admin.$method($($argument),*).await))
            }
        }
    };
}
use ask;

/// Makes a test of each case for each database and handle.
macro_rules! beside_relays {
    ($($case:ident),+ $(,)?) => {
        $(
            mod $case {
                use crate::outbox::admin_beside_relays::yard::{By, on_mariadb, on_postgres, on_sqlite};

                #[tokio::test(flavor = "multi_thread")]
                async fn async_on_postgres() {
                    on_postgres(By::Async, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn blocking_on_postgres() {
                    on_postgres(By::Blocking, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn async_on_mariadb() {
                    on_mariadb(By::Async, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn blocking_on_mariadb() {
                    on_mariadb(By::Blocking, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn async_on_sqlite() {
                    on_sqlite(By::Async, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn blocking_on_sqlite() {
                    on_sqlite(By::Blocking, super::$case).await;
                }
            }
        )+
    };
}
use beside_relays;
