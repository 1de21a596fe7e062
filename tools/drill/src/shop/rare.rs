//! Everything that happens rarely, again and again, so that each metric has a value.

use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::AsyncConnection as _;
use diesel_outbox::Message;
use diesel_outbox::admin::{Admin, DeadLetterFilter, RedriveRate};
use diesel_outbox::store::PostgresStore;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer as _};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::load::{Work, message};
use super::{ACCOUNT_EVENTS, ORDERS, RETURNS};

/// How long a state may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(100);
/// Longer than a message needs to be sent.
const AFTER_A_SEND: Duration = Duration::from_secs(2);

/// The transactional id of a lane of the fenced topic.
const LANE_ID: &str = "diesel-outbox/outbox_messages/ledger/0";

pub(super) async fn run(work: Work, bootstrap: String) {
    let admin = work.outbox.admin(PostgresStore::new(work.pool.clone()));
    loop {
        let done = async {
            people_act(&work, &admin).await?;
            dead_letters(&work, &admin).await?;
            late_row(&work).await?;
            fence(&bootstrap).await
        };
        if let Err(error) = done.await {
            tracing::warn!(error = %format!("{error:#}"), "the rare events did not all happen: trying again");
        }
        sleep(INTERVAL).await;
    }
}

/// A cancelled message, a processed one, and one that is sent again.
async fn people_act(work: &Work, admin: &Admin) -> Result<()> {
    let delayed = work.commit(vec![message(ORDERS, "delayed").delay(Duration::from_secs(3_600))]).await?;
    admin.cancel_delayed(delayed[0]).await.context("cancel")?;
    let sent = work.commit(vec![message(ORDERS, "processed"), message(ORDERS, "again")]).await?;
    admin.report_processed(sent[0]).await.context("report as processed")?;
    let again = async {
        while admin.resend(sent[1]).await.is_err() {
            sleep(INTERVAL).await;
        }
    };
    timeout(TIMEOUT, again).await.context("send a message of the history again")
}

/// Dead letters: one redriven, one purged.
async fn dead_letters(work: &Work, admin: &Admin) -> Result<()> {
    let refused = |key: &str| Message::to(RETURNS).kind("refused").key(key).payload_bytes(b"{}".to_vec());
    work.commit(vec![refused("a"), refused("b"), refused("c")]).await?;
    let filter = DeadLetterFilter::new().topic(RETURNS);
    let dead = async {
        while admin.count_dead_letters().await?.iter().map(|of| of.count).sum::<usize>() < 3 {
            sleep(INTERVAL).await;
        }
        admin.redrive_all(&filter, RedriveRate::default(), |_| ()).await
    };
    timeout(TIMEOUT, dead).await.context("wait for dead letters")?.context("redrive")?;
    sleep(AFTER_A_SEND).await;
    admin.purge_all(&filter, |_| ()).await.context("purge")?;
    Ok(())
}

/// A row that commits after a later one of its key was sent.
async fn late_row(work: &Work) -> Result<()> {
    let mut conn = work.connection().await?;
    let committed = conn.transaction(async |conn| {
        work.outbox.enqueue_async(conn, &message(ACCOUNT_EVENTS, "late")).await?;
        // Its failure is that of the drill's database.
        let overtakes = work.commit(vec![message(ACCOUNT_EVENTS, "late")]).await;
        sleep(AFTER_A_SEND).await;
        overtakes.map_err(|_| diesel::result::Error::RollbackTransaction)
    });
    committed.await.map(drop).context("commit late")
}

/// Another outbox with the same transactional ids.
async fn fence(bootstrap: &str) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("transactional.id", LANE_ID);
    let fence = move || -> Result<()> {
        let producer: BaseProducer = config.create()?;
        Ok(producer.init_transactions(TIMEOUT)?)
    };
    spawn_blocking(fence).await?.context("fence a lane")
}
