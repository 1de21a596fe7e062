use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel_outbox::admin::Admin;

use crate::comparison::Comparison;
use crate::entry::Millis;
use crate::error::VerifyError;
use crate::limits::{ENTRY_BYTES_IN_MEMORY, FINDINGS_MAX, MEMORY_BYTES_MIN};
use crate::progress::Progress;
use crate::report::Report;
use crate::reports::compare_with_reports;
use crate::rows::Rows;
use crate::sorter::SortLimits;
use crate::source::RecordSource;

/// Compares the messages of a topic in the tables with the topic.
///
/// It reads alone, and is safe beside relays. Messages enqueued after it began are not judged.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::{Outbox, Topic};
/// use diesel_outbox_verify::{Doubt, Verification};
///
/// let outbox = Outbox::builder().topic(Topic::new("orders").keep_sent_days(30)).build()?;
/// let store = MemoryStore::new();
/// let yesterday = store.now() - Duration::from_secs(24 * 3_600);
/// let admin = outbox.admin(store);
/// # struct Nothing;
/// # #[async_trait::async_trait]
/// # impl diesel_outbox_verify::RecordSource for Nothing {
/// #     async fn open(&mut self, _: &str, _: Option<std::time::SystemTime>) -> Result<diesel_outbox_verify::TopicState, diesel_outbox_verify::SourceError> { Ok(self.state()) }
/// #     async fn next(&mut self) -> Result<Vec<diesel_outbox_verify::Record>, diesel_outbox_verify::SourceError> { Ok(Vec::new()) }
/// #     async fn move_ends(&mut self) -> Result<(), diesel_outbox_verify::SourceError> { Ok(()) }
/// #     fn state(&self) -> diesel_outbox_verify::TopicState { Default::default() }
/// # }
/// # let mut kafka = Nothing;
/// // let mut kafka = KafkaSource::new(&KafkaConfig::new("kafka:9092"));
/// let report = Verification::of(&admin, "orders").since(yesterday).run(&mut kafka, |_| {}).await?;
/// for finding in &report.findings {
///     println!("{}: {finding}", finding.verdict());
/// }
/// assert!(!report.is_clean() && report.cannot_tell.len() == 2, "nothing was compared");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Verification {
    admin: Admin,
    topic: Arc<str>,
    since: Option<SystemTime>,
    until: Option<SystemTime>,
    findings_max: usize,
    sort: SortLimits,
}

impl Verification {
    /// Of all messages of a topic that the history has.
    pub fn of(admin: &Admin, topic: impl Into<Arc<str>>) -> Self {
        Self {
            admin: admin.clone(),
            topic: topic.into(),
            since: None,
            until: None,
            findings_max: FINDINGS_MAX,
            sort: SortLimits::default(),
        }
    }

    /// Only messages enqueued from then on, by the database's clock.
    #[must_use]
    pub fn since(mut self, at: SystemTime) -> Self {
        self.since = Some(at);
        self
    }

    /// Only messages enqueued before then, by the database's clock. By default it is the present.
    #[must_use]
    pub fn until(mut self, at: SystemTime) -> Self {
        self.until = Some(at);
        self
    }

    /// How many findings of each verdict are looked up and reported; 100 by default. With more, the counts say `at least`.
    #[must_use]
    pub fn findings_max(mut self, findings: usize) -> Self {
        self.findings_max = findings.max(1);
        self
    }

    /// The folder of the temporary files; by default that of the system. They have no names there, so nothing is left of them.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sort.folder = folder.into();
        self
    }

    /// About how many bytes of memory it sorts in; 73 MB by default, and at least 8 MB. With less, it writes and merges more files.
    #[must_use]
    pub fn memory_max(mut self, bytes: usize) -> Self {
        self.sort.entries_max = bytes.max(MEMORY_BYTES_MIN) / (2 * ENTRY_BYTES_IN_MEMORY);
        self
    }

    /// How many entries are sorted in memory, for tests.
    #[cfg(test)]
    pub(crate) fn sort_limits(mut self, entries_max: usize, runs_max: usize) -> Self {
        (self.sort.entries_max, self.sort.runs_max) = (entries_max, runs_max);
        self
    }

    /// Compares the tables with a topic. Tells `progress` how far it is.
    ///
    /// Memory is bounded, however many messages there are; the folder of temporary files needs 86 bytes for each row and each record.
    ///
    /// # Errors
    /// See [`VerifyError`]. What was compared until then is lost.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn run(
        &self,
        source: &mut dyn RecordSource,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Report, VerifyError> {
        let (started_at, from, before) = self.period().await?;
        let has_history = self.check_topic().await?;
        let rows = self.rows(from, before);
        let comparison = Comparison {
            rows,
            started_at: Millis::of(started_at),
            since: self.since,
            findings_max: self.findings_max,
            sort: &self.sort,
            has_history,
        };
        Box::pin(comparison.run(source, &mut progress)).await
    }

    /// Compares the history with what consumers have reported as processed. For transports without a topic to read, such as HTTP, and
    /// for the way through the consumer of others. A message that was sent longer than `processed_within` ago should be reported.
    ///
    /// # Errors
    /// See [`VerifyError`].
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn run_with_reports(
        &self,
        processed_within: Duration,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Report, VerifyError> {
        let (started_at, from, before) = self.period().await?;
        let has_history = self.check_topic().await?;
        let rows = self.rows(from, before);
        let late = started_at.checked_sub(processed_within).unwrap_or(SystemTime::UNIX_EPOCH);
        let compared = compare_with_reports(rows, has_history, late, self.findings_max, &mut progress).await?;
        Ok(compared.into_report(rows, self.since))
    }

    fn rows(&self, from: SystemTime, before: SystemTime) -> Rows<'_> {
        Rows { admin: &self.admin, topic: &self.topic, from, before }
    }

    /// The present, and the period: in whole milliseconds, as a record has the time of its message.
    async fn period(&self) -> Result<(SystemTime, SystemTime, SystemTime), VerifyError> {
        let started_at = self.admin.now().await?;
        let from = self.since.unwrap_or(SystemTime::UNIX_EPOCH).max(SystemTime::UNIX_EPOCH);
        let before = self.until.map_or(started_at, |until| until.min(started_at)).max(SystemTime::UNIX_EPOCH);
        if from >= before {
            return Err(VerifyError::EmptyPeriod);
        }
        Ok((started_at, whole_millis(from), whole_millis(before)))
    }

    /// Refuses a topic that nobody knows. Returns whether the history has any of its messages.
    async fn check_topic(&self) -> Result<bool, VerifyError> {
        let rows = self.rows(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
        let topics = self.admin.topics().await?;
        let has_history = rows.has_history().await?;
        if has_history || topics.iter().any(|known| known.topic == self.topic) {
            return Ok(has_history);
        }
        let known = topics.iter().map(|known| known.topic.to_string()).collect();
        Err(VerifyError::NoSuchTopic { topic: self.topic.to_string(), known })
    }
}

fn whole_millis(at: SystemTime) -> SystemTime {
    Millis::of(at).at().unwrap_or(at)
}
