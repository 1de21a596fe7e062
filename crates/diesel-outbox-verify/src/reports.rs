//! The history against what consumers have reported as processed.

use std::time::SystemTime;

use diesel_outbox::admin::SentMessage;

use crate::candidates::Candidates;
use crate::doubt::Doubt;
use crate::entry::Entry;
use crate::error::VerifyError;
use crate::finding::Finding;
use crate::lookup::place_of;
use crate::progress::{Phase, Progress};
use crate::report::{Compared, Count, Counts, Report};
use crate::rows::{PageSize, Rows};

/// What was found.
#[derive(Debug)]
pub(crate) struct ComparedWithReports {
    compared: Compared,
    unprocessed: Candidates<Entry>,
    not_reported: u64,
    has_history: bool,
}

/// Reads the history. Reports come in meanwhile, so what is not reported is looked up again in the end.
pub(crate) async fn compare_with_reports(
    rows: Rows<'_>,
    has_history: bool,
    sent_before: SystemTime,
    findings_max: usize,
    progress: &mut (impl FnMut(Progress) + Send),
) -> Result<ComparedWithReports, VerifyError> {
    let mut outcome = ComparedWithReports {
        compared: Compared::default(),
        unprocessed: Candidates::new(findings_max),
        not_reported: 0,
        has_history,
    };
    let (mut after, mut size) = (None, PageSize::default());
    let mut is_more = has_history;
    while is_more {
        let (messages, next) = rows.sent(after, &mut size).await?;
        messages.iter().for_each(|message| outcome.push(message, sent_before));
        progress(Progress { phase: Phase::Rows, done: outcome.compared.sent, of: None });
        is_more = next.is_some();
        after = next;
    }
    outcome.check(rows).await?;
    Ok(outcome)
}

impl ComparedWithReports {
    fn push(&mut self, message: &SentMessage, sent_before: SystemTime) {
        self.compared.sent += 1;
        if message.processed_at.is_some() {
            self.compared.matched += 1;
        } else if !message.awaits_processing {
            self.not_reported += 1;
        } else if message.sent_at < sent_before {
            self.unprocessed.push(Entry::of_sent(message));
        }
    }

    async fn check(&mut self, rows: Rows<'_>) -> Result<(), VerifyError> {
        let mut still = Vec::new();
        for row in std::mem::take(&mut self.unprocessed.kept) {
            match rows.admin.sent(row.message_id()).await {
                Ok(message) if message.processed_at.is_none() => still.push(row),
                // It is reported now, or is being sent again.
                Ok(_) | Err(diesel_outbox::admin::AdminError::NotInHistory { .. }) => self.unprocessed.total -= 1,
                Err(error) => return Err(error.into()),
            }
        }
        self.unprocessed.kept = still;
        Ok(())
    }

    pub(crate) fn into_report(self, rows: Rows<'_>, since: Option<SystemTime>) -> Report {
        let unprocessed = Count { count: self.unprocessed.kept.len() as u64, more: self.unprocessed.is_cut() };
        let mut cannot_tell = Vec::new();
        if !self.has_history {
            cannot_tell.push(Doubt::HistoryNotKept { records: 0 });
        }
        if self.not_reported > 0 {
            cannot_tell.push(Doubt::NotReported { messages: self.not_reported });
        }
        if self.compared.matched == 0 && unprocessed.count == 0 && cannot_tell.is_empty() {
            cannot_tell.push(Doubt::NothingToCompare);
        }
        let findings = self.unprocessed.kept.iter().map(|row| Finding::Unprocessed { row: place_of(row) });
        Report {
            topic: rows.topic.into(),
            since,
            until: rows.before,
            compared: self.compared,
            counts: Counts { unprocessed, ..Counts::default() },
            findings: findings.collect(),
            cannot_tell,
        }
    }
}
