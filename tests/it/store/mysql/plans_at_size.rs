//! What claims read of a table that has grown, in rows as the server counted them for the session.

use diesel_outbox::internals::store::PollSpec;
use std::sync::{Arc, Mutex};

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::sql_types::Text;
use diesel::{QueryableByName, RunQueryDsl as _};
use diesel_outbox::internals::store::Store as _;

use super::under_test::MysqlUnderTest;
use crate::store::{insert, spec};

const CALLS: usize = 8;

/// 200,000 rows load in seconds; if one claim read them all, it would show.
const DELAYED: u32 = 200_000;

const FEW: u32 = 1_000;

#[derive(QueryableByName)]
struct Counter {
    #[diesel(sql_type = Text, column_name = "Value")]
    value: String,
}

/// What each session has read in all, recorded when it ends: the store keeps it until then.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(pub(super) Arc<Mutex<Vec<u64>>>);

impl CustomizeConnection<MysqlConnection, diesel::r2d2::Error> for Tally {
    fn on_release(&self, mut session: MysqlConnection) {
        // The last counter is of index entries that the engine skipped by itself and does not count as read.
        let counters =
            "SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%' OR Variable_name = 'Handler_icp_attempts'";
        let counters: Vec<Counter> = diesel::sql_query(counters).load(&mut session).expect("counters");
        let read = counters.iter().map(|counter| counter.value.parse::<u64>().expect("a number")).sum();
        self.0.lock().expect("unpoisoned").push(read);
    }
}

/// What polls and claims of a few rows read while many are due next month.
async fn rows_read_beside(delayed: u32) -> Option<u64> {
    let tally = Tally::default();
    let customizer = tally.clone();
    let test = MysqlUnderTest::open(|url| {
        let pool = Pool::builder().max_size(1).min_idle(Some(0)).connection_customizer(Box::new(customizer));
        pool.build(ConnectionManager::<MysqlConnection>::new(url)).expect("a pool")
    })?;
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at, deliver_at) \
         SELECT UNHEX(LPAD(HEX(seq), 32, '0')), 'orders', '', '[]', later, later FROM ( \
           SELECT seq, UTC_TIMESTAMP(6) + INTERVAL 30 DAY + INTERVAL seq * 1000 MICROSECOND AS later \
           FROM seq_1_to_{delayed}) l"
    ));
    test.run("ANALYZE TABLE {m}");
    for _ in 0..CALLS {
        let key = insert(&test).await;
        assert_eq!(test.store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
        let claim = test.store.claim(&spec()).await.expect("claim");
        assert_eq!(claim.rows.len(), 1);
        claim.handle.close(&[key], &[]).await.expect("close");
        let nothing = test.store.claim(&spec()).await.expect("claim");
        assert!(nothing.rows.is_empty());
        nothing.handle.close(&[], &[]).await.expect("close");
    }
    drop(test);
    let read =
        crate::store::eventually("the session has recorded its reads", || tally.0.lock().expect("unpoisoned").pop());
    Some(read.await)
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_cost_a_sweeper_no_row() {
    let Some(alone) = rows_read_beside(FEW).await else { return };
    let Some(beside) = rows_read_beside(DELAYED).await else { return };
    assert!(alone > 0, "nothing was counted");
    assert!(beside < alone + u64::from(FEW), "{beside} rows instead of {alone}");
}
