//! The suite over every pool.

mod r2d2 {
    use diesel::SqliteConnection;
    use diesel::r2d2::{ConnectionManager, Pool};

    use crate::store::parts::unsupported;
    use crate::store::sqlite::under_test::SqliteUnderTest;

    async fn open() -> Option<SqliteUnderTest<Pool<ConnectionManager<SqliteConnection>>>> {
        let pool = |file: &str| Pool::builder().max_size(2).build(ConnectionManager::new(file)).expect("a pool");
        Some(SqliteUnderTest::open(async |file| pool(file)).await)
    }

    diesel_outbox::store_conformance_tests!(open);

    /// One writer at a time: there are no row locks, and ids become visible in their order.
    #[tokio::test]
    async fn supports_everything_but_row_locks_and_horizons() {
        let test = open().await.expect("a file");
        assert_eq!(unsupported(&test).await, ["row locks", "horizons"]);
    }
}

mod deadpool {
    use diesel::SqliteConnection;
    use diesel_async::pooled_connection::AsyncDieselConnectionManager;
    use diesel_async::pooled_connection::deadpool::Pool;
    use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

    use crate::store::sqlite::under_test::SqliteUnderTest;

    async fn open() -> Option<SqliteUnderTest<Pool<SyncConnectionWrapper<SqliteConnection>>>> {
        let pool =
            |file: &str| Pool::builder(AsyncDieselConnectionManager::new(file)).max_size(2).build().expect("a pool");
        Some(SqliteUnderTest::open(async |file| pool(file)).await)
    }

    diesel_outbox::store_conformance_tests!(open);
}

mod bb8 {
    use diesel::SqliteConnection;
    use diesel_async::pooled_connection::AsyncDieselConnectionManager;
    use diesel_async::pooled_connection::bb8::Pool;
    use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

    use crate::store::sqlite::under_test::SqliteUnderTest;

    async fn open() -> Option<SqliteUnderTest<Pool<SyncConnectionWrapper<SqliteConnection>>>> {
        let pool = async |file: &str| {
            Pool::builder().max_size(2).build(AsyncDieselConnectionManager::new(file)).await.expect("a pool")
        };
        Some(SqliteUnderTest::open(pool).await)
    }

    diesel_outbox::store_conformance_tests!(open);
}

mod mobc {
    use diesel::SqliteConnection;
    use diesel_async::pooled_connection::AsyncDieselConnectionManager;
    use diesel_async::pooled_connection::mobc::Pool;
    use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

    use crate::store::sqlite::under_test::SqliteUnderTest;

    async fn open() -> Option<SqliteUnderTest<Pool<SyncConnectionWrapper<SqliteConnection>>>> {
        let pool = |file: &str| Pool::builder().max_open(2).build(AsyncDieselConnectionManager::new(file));
        Some(SqliteUnderTest::open(async |file| pool(file)).await)
    }

    diesel_outbox::store_conformance_tests!(open);
}
