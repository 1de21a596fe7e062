use diesel_outbox::admin::AdminError;
use diesel_outbox::store::{SchemaProblem, StoreError};

use super::finding::{Findings, Verdict};
use crate::error::{Error, hint_of};
use crate::output::note;
use crate::session::{Session, table_of};

/// Looks at tables and settings; returns whether the tables of messages and dead letters are there.
pub(super) async fn check(session: &Session, findings: &mut Findings) -> Result<bool, Error> {
    let names = session.outbox.tables();
    let needed = [names.messages(), names.dead_letters()];
    let problems = session.admin.check_tables().await?;
    let mut has_tables = true;
    for problem in &problems {
        let is_needed = table_of(problem).is_some_and(|table| needed.iter().any(|of| of == table));
        has_tables &= !is_needed;
        // What a later migration creates, only some outboxes need.
        let is_missing = matches!(problem, SchemaProblem::Missing { .. } | SchemaProblem::NotMigrated { .. });
        let verdict = if is_missing && !is_needed { Verdict::Warning } else { Verdict::Wrong };
        findings.note(verdict, "tables", problem.to_string());
    }
    if let Some(hint) = problems.iter().find_map(hint_of) {
        note(&format!("hint: {hint}"));
    }
    if problems.is_empty() {
        findings.note(Verdict::Fine, "tables", "every table is there, in the version of this release");
    }
    if has_tables {
        check_settings(session, findings).await?;
    }
    Ok(has_tables)
}

async fn check_settings(session: &Session, findings: &mut Findings) -> Result<(), Error> {
    let warnings = match session.admin.check_settings().await {
        Ok(warnings) => warnings,
        Err(AdminError::Store(StoreError::Schema(problem))) => {
            findings.note(Verdict::Wrong, "settings", problem.to_string());
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    for warning in &warnings {
        findings.note(Verdict::Warning, "settings", warning.to_string());
    }
    if warnings.is_empty() {
        findings.note(Verdict::Fine, "settings", "the database keeps what it commits");
    }
    Ok(())
}
