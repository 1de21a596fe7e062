//! The audit where its table is missing, and where it is there.

use diesel::connection::SimpleConnection as _;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::admin::{Admin, AdminError, AuditFilter};
use diesel_outbox::store::{SchemaProblem, SqliteStore, StoreError};
use diesel_outbox::{Message, MessageId, Outbox, OutboxBuilder, Topic};

use super::databases::{SqliteFile, pool};
use super::logged::Log;

fn builder() -> OutboxBuilder {
    Outbox::builder().topic(Topic::new("orders")).allow_outside_transaction()
}

fn admin(outbox: &Outbox, file: &SqliteFile) -> Admin {
    outbox.admin(SqliteStore::new(pool::<SqliteConnection>(&file.url())))
}

fn delayed(outbox: &Outbox, file: &SqliteFile) -> MessageId {
    let hour = std::time::Duration::from_secs(3_600);
    outbox.enqueue(&mut file.connect(), &Message::to("orders").delay(hour)).expect("enqueue")
}

const WARNING: &str = "is not recorded";

#[tokio::test]
async fn without_its_table_operations_are_done_and_the_log_says_so_once() {
    let (log, _guard) = Log::begin();
    let (file, outbox) = (SqliteFile::fresh(), builder().build().expect("an outbox"));
    file.connect().batch_execute("DROP TABLE outbox_audit").expect("drop");
    let admin = admin(&outbox, &file);
    for admin in [admin.clone(), admin.acting_as("alice")] {
        for _ in 0..2 {
            admin.cancel_delayed(delayed(&outbox, &file)).await.expect("cancel");
        }
    }
    assert_eq!(log.times(WARNING), 1, "{}", log.text());
    assert!(log.text().contains("0000outbox06_audit"), "{}", log.text());
    let error = admin.audit(&AuditFilter::new(), None, 10).await.expect_err("there is none");
    assert!(error.to_string().contains("0000outbox06_audit"), "{error}");
}

#[tokio::test]
async fn a_required_audit_refuses_what_it_cannot_record() {
    let (file, outbox) = (SqliteFile::fresh(), builder().require_audit().build().expect("an outbox"));
    file.connect().batch_execute("DROP TABLE outbox_audit").expect("drop");
    let (admin, message_id) = (admin(&outbox, &file).acting_as("alice"), delayed(&outbox, &file));
    let error = admin.cancel_delayed(message_id).await.expect_err("it cannot be recorded");
    assert!(matches!(error, AdminError::Store(StoreError::Schema(SchemaProblem::NotMigrated { .. }))), "{error}");
    let up = include_str!("../../../migrations/outbox/sqlite/0000outbox06_audit/up.sql");
    file.connect().batch_execute(up).expect("migrate");
    admin.cancel_delayed(message_id).await.expect("it was not cancelled before");
    let page = admin.audit(&AuditFilter::new().message_id(message_id), None, 10).await.expect("audit");
    assert_eq!(
        page.items.iter().map(|entry| (&*entry.action, entry.changed)).collect::<Vec<_>>(),
        [("cancel_delayed", 1)]
    );
    assert_eq!(page.next, None);
}

#[test]
fn an_audit_is_kept_for_a_day_to_ten_years() {
    for days in [0, 4_000] {
        let error = builder().keep_audit_days(days).build().expect_err("too short or too long");
        assert!(error.to_string().contains(&format!("keep_audit_days is {days}; give 1 to 3653")), "{error}");
    }
    builder().keep_audit_days(1).build().expect("a day");
}
