//! The library's own comparison of table and topic, beside the audit.

use std::time::SystemTime;

use anyhow::{Context, Result};
use async_trait::async_trait;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::KafkaConfig;
use diesel_outbox::{Headers, Outbox, Topic};
use diesel_outbox_verify::{KafkaSource, Record, RecordSource, SourceError, TopicState, Verification};

use crate::app::SENT_BY;

/// A topic without the header that the applications' transport adds to each copy.
struct WithoutSender(KafkaSource);

#[async_trait]
impl RecordSource for WithoutSender {
    async fn open(&mut self, topic: &str, from: Option<SystemTime>) -> Result<TopicState, SourceError> {
        self.0.open(topic, from).await
    }

    async fn next(&mut self) -> Result<Vec<Record>, SourceError> {
        let mut records = self.0.next().await?;
        for record in &mut records {
            let headers: Headers = record.headers.iter().filter(|(name, _)| *name != SENT_BY).collect();
            record.headers = headers;
        }
        Ok(records)
    }

    async fn move_ends(&mut self) -> Result<(), SourceError> {
        self.0.move_ends().await
    }

    fn state(&self) -> TopicState {
        self.0.state()
    }
}

/// What it finds wrong with a topic that keeps sent messages, or cannot tell. While the database's clock was wrong, delivery times were,
/// too.
pub(crate) async fn disagreements(url: &str, bootstrap: &str, topic: Topic, is_skewed: bool) -> Result<Vec<String>> {
    let name = topic.name().to_owned();
    let outbox = Outbox::builder().topic(topic.keep_sent_days(1)).build().context("build the outbox")?;
    let admin = outbox.admin(PostgresStore::connect(url)?);
    let mut source = WithoutSender(KafkaSource::new(&KafkaConfig::new(bootstrap)));
    let report = Verification::of(&admin, name.as_str()).run(&mut source, |_| {}).await.context("verify")?;
    let compared = &report.compared;
    println!(
        "verified {name}: {} sent, {} records, {} match, {} doubled",
        compared.sent, compared.records, compared.matched, report.counts.doubled
    );
    let is_wrong = |verdict: &str| verdict != "doubled" && !(is_skewed && verdict == "early");
    let findings = report.findings.iter().filter(|finding| is_wrong(finding.verdict()));
    let findings =
        findings.map(|finding| format!("{}: {finding}, message {:?}", finding.verdict(), finding.message_id()));
    Ok(findings.chain(report.cannot_tell.iter().map(|doubt| format!("cannot tell: {doubt}"))).collect())
}
