//! What people do to messages beside running relays: on each database, by the async handle and by the blocking one.

mod canary;
mod fixture;
mod history;
mod letters;
mod load;
mod two_relays;
mod waiting;

/// Asks either handle in the same way.
macro_rules! call {
    ($fixture:expr, $method:ident($($argument:expr),*)) => {
        match $fixture.handle {
            Handle::Async(ref admin) => admin.$method($($argument),*).await,
            Handle::Blocking(admin) => {
                tokio::task::block_in_place(|| admin.run(async |admin| admin.$method($($argument),*).await))
            }
        }
    };
}
use call;

/// Makes a test of each case for each database and handle.
macro_rules! admin_tests {
    ($($case:ident),+ $(,)?) => {
        $(
            mod $case {
                use crate::outbox::admin_beside_relays::fixture::{HandleKind, on_mariadb, on_postgres, on_sqlite};

                #[tokio::test(flavor = "multi_thread")]
                async fn async_on_postgres() {
                    on_postgres(HandleKind::Async, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn blocking_on_postgres() {
                    on_postgres(HandleKind::Blocking, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn async_on_mariadb() {
                    on_mariadb(HandleKind::Async, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn blocking_on_mariadb() {
                    on_mariadb(HandleKind::Blocking, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn async_on_sqlite() {
                    on_sqlite(HandleKind::Async, super::$case).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn blocking_on_sqlite() {
                    on_sqlite(HandleKind::Blocking, super::$case).await;
                }
            }
        )+
    };
}
use admin_tests;
