//! What holds on each database.

mod batches;
mod concurrent;
mod ignored;
mod retention;
mod single;

/// Each case over each database, sync and async.
macro_rules! on_each_database {
    ($($case:ident),+ $(,)?) => {
        $(mod $case {
            use diesel::{MysqlConnection, PgConnection, SqliteConnection};
            use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};

            use crate::inbox::node::{AsyncNode, SyncNode};
            use crate::outbox::databases::AsyncSqlite;

            #[test]
            fn postgres() {
                super::$case::<SyncNode<PgConnection>>();
            }

            #[test]
            fn postgres_async() {
                super::$case::<AsyncNode<AsyncPgConnection>>();
            }

            #[test]
            fn mariadb() {
                super::$case::<SyncNode<MysqlConnection>>();
            }

            #[test]
            fn mariadb_async() {
                super::$case::<AsyncNode<AsyncMysqlConnection>>();
            }

            #[test]
            fn sqlite() {
                super::$case::<SyncNode<SqliteConnection>>();
            }

            #[test]
            fn sqlite_async() {
                super::$case::<AsyncNode<AsyncSqlite>>();
            }
        })+
    };
}

use on_each_database;
