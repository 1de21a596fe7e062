//! The audit in a database: what is recorded with its write, and by which indexes it is read.

use std::time::{Duration, SystemTime};

use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{AuditFilter, AuditRecord, Held, NewDeadLetter, Requeue};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::store::{SchemaProblem, StoreError};
use uuid::Uuid;

use super::insert;

/// What an operation of alice records.
pub(super) fn record(action: &'static str) -> AuditRecord {
    AuditRecord {
        id: Uuid::now_v7(),
        actor: Some("alice".into()),
        action,
        message_id: Some(message()),
        filter: Some(r#"{"topic":"orders"}"#.into()),
        reason: Some("ticket 17".into()),
        ends: true,
    }
}

/// The message of these operations.
pub(super) fn message() -> MessageId {
    Uuid::from_u128(17).into()
}

/// Filters that find a pause of alice, by each condition alone.
pub(super) fn each_condition() -> [AuditFilter; 5] {
    let filter = AuditFilter::new;
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(100 * 365 * 86_400);
    [
        filter().actor("alice"),
        filter().action("pause"),
        filter().message_id(message()),
        filter().began_from(SystemTime::UNIX_EPOCH),
        filter().began_before(later),
    ]
}

/// Without the table, a write that is to be recorded fails as a whole, and one without a record goes on.
pub(super) async fn assert_record_is_part_of_the_write(test: &dyn StoreUnderTest, drop_table: impl FnOnce()) {
    let store = test.store();
    let (admin, audit) = (store.admin().expect("admin operations"), store.audit().expect("an audit"));
    let key = insert(test).await;
    let dead = NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused".into() };
    store.dead_letter(&[dead]).await.expect("dead_letter");
    audit.check_audit().await.expect("it is there");
    drop_table();
    let (requeues, redrive) = ([Requeue { message_id: key.message_id, lane: None }], record("redrive"));
    let error = admin.redrive(&requeues, Some(&redrive)).await.expect_err("it cannot be recorded");
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
    assert_eq!((test.live_rows().await.len(), test.dead_letter_rows().await.len()), (0, 1), "it stays dead");
    for error in [
        audit.check_audit().await.expect_err("it is gone"),
        audit.audit_entries(&AuditFilter::new(), None, 1).await.map(drop).expect_err("it is gone"),
    ] {
        assert!(matches!(error, StoreError::Schema(SchemaProblem::NotMigrated { .. })), "{error:?}");
        assert!(error.to_string().contains("0000outbox06_audit"), "{error}");
    }
    assert_eq!(admin.redrive(&requeues, None).await.expect("redrive").len(), 1);
}
