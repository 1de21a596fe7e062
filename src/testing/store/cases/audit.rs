use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::message::MessageId;
use crate::store::{
    AuditCursor, AuditEntry, AuditFilter, AuditRecord, AuditStore, CancelOutcome, HistoryRow, InsertOptions, Keep,
    Locking, SendNowOutcome,
};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

const NONE: [Uuid; 0] = [];

/// What an operation of nobody records.
fn record(action: &'static str) -> AuditRecord {
    AuditRecord { id: Uuid::now_v7(), actor: None, action, message_id: None, filter: None, reason: None, ends: true }
}

async fn entries(audit: &dyn AuditStore, filter: &AuditFilter) -> Vec<AuditEntry> {
    audit.audit_entries(filter, None, 100).await.expect("audit entries")
}

/// How much an operation has changed; `None` without an entry.
async fn changed(audit: &dyn AuditStore, record: &AuditRecord) -> Option<usize> {
    let entries = entries(audit, &AuditFilter::new()).await;
    entries.iter().find(|entry| entry.id == record.id).map(|entry| entry.changed)
}

/// An entry has everything that its record says, with texts as they are, and the time of the database.
pub async fn audit_entry_has_the_whole_record(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let (Some(admin), Some(audit)) = (store.admin(), store.audit()) else { return };
    audit.check_audit().await.expect("it can be recorded");
    let dead = insert_dead_letter(under_test, TOPIC, "1", "refused").await;
    let whole = AuditRecord {
        actor: Some("M\u{fc}ller, \"Q\" \u{1f980}".into()),
        message_id: Some(dead.message_id),
        filter: Some(r#"{"key": "O'Hara \"x\" é"}"#.into()),
        reason: Some("ticket 17; DROP TABLE".into()),
        ..record("purge")
    };
    let (window, purged) = WriteWindow::of(under_test, admin.purge(&[dead.message_id], Some(&whole))).await;
    assert_eq!(purged.expect("purge"), 1);
    let found = entries(audit, &AuditFilter::new()).await;
    let [entry] = &found[..] else { panic!("one entry: {found:?}") };
    assert_eq!((entry.id, &*entry.action, entry.changed), (whole.id, "purge", 1));
    assert_eq!((entry.actor.as_deref(), entry.reason.as_deref()), (whole.actor.as_deref(), whole.reason.as_deref()));
    assert_eq!(entry.message_id, Some(dead.message_id));
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(entry.filter.as_deref().map(json), whole.filter.as_deref().map(json));
    window.assert_at(entry.began_at);
    window.assert_at(entry.ended_at.expect("it ended with its only write"));
}

/// Each write of an admin operation records how much it has changed, and one that has changed nothing records nothing.
pub async fn each_admin_write_is_recorded(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let (Some(admin), Some(audit)) = (store.admin(), store.audit()) else { return };
    let delayed = InsertOptions::default().deliver_after(HOUR);
    let [cancelled, hastened, removed] =
        [insert(under_test, delayed).await, insert(under_test, delayed).await, insert(under_test, DUE).await];
    let topic = TOPIC.into();
    for expected in [Some(1), None] {
        let (cancel, send_now, cancel_waiting) =
            (record("cancel_delayed"), record("send_now"), record("cancel_waiting"));
        let (pause, resume) = (record("pause"), record("resume"));
        let outcome = admin.cancel_delayed(cancelled.message_id, Some(&cancel)).await.expect("cancel");
        assert_eq!(matches!(outcome, CancelOutcome::Cancelled { .. }), expected.is_some());
        let outcome = admin.send_now(hastened.message_id, LEASE, Some(&send_now)).await.expect("send now");
        assert_eq!(outcome == Some(SendNowOutcome::Due), expected.is_some());
        let outcome = admin.cancel_waiting(removed.message_id, LEASE, Some(&cancel_waiting)).await.expect("cancel");
        assert_eq!(matches!(outcome, CancelOutcome::Cancelled { .. }), expected.is_some());
        for written in [&cancel, &send_now, &cancel_waiting] {
            assert_eq!(changed(audit, written).await, expected, "{}", written.action);
        }
        admin.pause(&topic, Some(&pause)).await.expect("pause");
        assert_eq!(changed(audit, &pause).await, expected, "a pause of a paused topic changes nothing");
        if expected.is_none() {
            admin.resume(&topic, None).await.expect("resume");
            admin.resume(&topic, Some(&resume)).await.expect("resume");
            assert_eq!(changed(audit, &resume).await, None, "it is not paused");
        }
    }
    admin.pause(&topic, None).await.expect("pause");
    let resume = record("resume");
    assert!(admin.resume(&topic, Some(&resume)).await.expect("resume"));
    assert_eq!(changed(audit, &resume).await, Some(1));
}

/// The same of what is done to dead letters.
pub async fn each_write_to_dead_letters_is_recorded(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let (Some(admin), Some(audit)) = (store.admin(), store.audit()) else { return };
    let mut dead = Vec::new();
    for _ in 0..5 {
        dead.push(insert_dead_letter(under_test, TOPIC, "1", "refused").await.message_id);
    }
    for there in [true, false] {
        let (redrive, purge, replace) = (record("redrive"), record("purge"), record("replace"));
        let requeues = [requeue(dead[0], None), requeue(dead[1], Some(3)), requeue(MessageId::new(), None)];
        admin.redrive(&requeues, Some(&redrive)).await.expect("redrive");
        admin.purge(&[dead[2], dead[3]], Some(&purge)).await.expect("purge");
        admin.replace(dead[4], &message(TOPIC), None, Some(&replace)).await.expect("replace");
        for (written, many) in [(redrive, 2), (purge, 2), (replace, 1)] {
            assert_eq!(changed(audit, &written).await, there.then_some(many), "{}", written.action);
        }
    }
}

/// The same of what is done to sent messages.
pub async fn each_write_to_the_history_is_recorded(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let Some(audit) = store.audit() else { return };
    let history = store.history();
    let keep = Keep { days: 3, awaits_processing: true };
    let mut sent = Vec::new();
    for _ in 0..3 {
        let key = insert(under_test, DUE).await;
        history.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.expect("settle");
        sent.push(key.message_id);
    }
    for there in [true, false] {
        let (report, resend) = (record("report_processed"), record("resend"));
        history.report_processed(&sent[..1], Some(&report)).await.expect("report");
        let requeues = [requeue(sent[0], None), requeue(sent[1], None), requeue(sent[2], Some(1))];
        history.resend(&requeues, Some(&resend)).await.expect("resend");
        assert_eq!(changed(audit, &report).await, there.then_some(1), "it was processed before");
        assert_eq!(changed(audit, &resend).await, there.then_some(2), "it is processed, or live");
    }
}

/// An operation of several writes has one entry, which counts what all of them have changed, and says when it ended.
pub async fn audit_entry_of_several_writes_counts_up(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let (Some(admin), Some(audit)) = (store.admin(), store.audit()) else { return };
    let mut dead = Vec::new();
    for _ in 0..3 {
        dead.push(insert_dead_letter(under_test, TOPIC, "1", "refused").await.message_id);
    }
    let purge_all = AuditRecord { ends: false, ..record("purge_all") };
    let (window, purged) = WriteWindow::of(under_test, admin.purge(&dead[..2], Some(&purge_all))).await;
    assert_eq!(purged.expect("purge"), 2);
    let begun = entries(audit, &AuditFilter::new()).await;
    assert_eq!(begun.iter().map(|entry| (entry.changed, entry.ended_at)).collect::<Vec<_>>(), [(2, None)]);
    admin.purge(&dead[2..], Some(&purge_all)).await.expect("purge");
    admin.purge(&dead, Some(&purge_all)).await.expect("purge");
    let (ended, done) = WriteWindow::of(under_test, audit.end_operation(purge_all.id)).await;
    done.expect("end");
    audit.end_operation(Uuid::now_v7()).await.expect("one that has changed nothing");
    let entries = entries(audit, &AuditFilter::new()).await;
    let [entry] = &entries[..] else { panic!("one entry: {entries:?}") };
    assert_eq!((entry.changed, entry.began_at), (3, begun[0].began_at));
    window.assert_at(entry.began_at);
    ended.assert_at(entry.ended_at.expect("it has ended"));
}

/// Writes a pause that is recorded, and returns the operation.
async fn paused_by(under_test: &dyn StoreUnderTest, actor: &str, topic: &str, message: Option<MessageId>) -> Uuid {
    let pause = AuditRecord { actor: Some(actor.into()), message_id: message, ..record("pause") };
    let admin = under_test.store().admin().expect("admin operations");
    admin.pause(&topic.into(), Some(&pause)).await.expect("pause");
    pause.id
}

/// Pages join without gaps or duplicates, the latest entry first, whatever is added meanwhile.
pub async fn audit_comes_in_pages(under_test: &dyn StoreUnderTest) {
    let Some(audit) = under_test.store().audit() else { return };
    let mut written = Vec::new();
    for number in 0..5 {
        written.push(paused_by(under_test, "alice", &format!("topic{number}"), None).await);
    }
    let (mut seen, mut after): (Vec<AuditEntry>, Option<AuditCursor>) = (Vec::new(), None);
    loop {
        let page = audit.audit_entries(&AuditFilter::new(), after.as_ref(), 2).await.expect("audit entries");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        seen.extend(page);
        assert!(seen.len() <= written.len(), "an entry is on two pages");
        paused_by(under_test, "bob", &format!("later{}", seen.len()), None).await;
    }
    let places: Vec<_> = seen.iter().map(|entry| (entry.began_at, entry.id)).collect();
    assert!(places.is_sorted_by(|one, next| one > next), "the latest first: {places:?}");
    let mut ids: Vec<Uuid> = seen.iter().map(|entry| entry.id).collect();
    ids.sort_unstable();
    written.sort_unstable();
    assert_eq!(ids, written);
}

/// Each condition of a filter is applied, and an entry must meet all of them.
pub async fn audit_entries_are_found_by_filter(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let (Some(admin), Some(audit)) = (store.admin(), store.audit()) else { return };
    let message = MessageId::new();
    let alices = paused_by(under_test, "alice", "one", None).await;
    let bobs = paused_by(under_test, "bob", "two", Some(message)).await;
    let nobodys = record("resume");
    assert!(admin.resume(&"one".into(), Some(&nobodys)).await.expect("resume"));
    let found = async |filter: AuditFilter| {
        let mut ids: Vec<Uuid> = entries(audit, &filter).await.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids
    };
    let filter = AuditFilter::new;
    assert_eq!(found(filter().actor("alice")).await, [alices]);
    assert_eq!(found(filter().actor("Alice")).await, NONE, "names have a case");
    assert_eq!(found(filter().actor("al%")).await, NONE, "a name, not a pattern");
    assert_eq!(found(filter().action("pause")).await, [alices, bobs]);
    assert_eq!(found(filter().action("resume")).await, [nobodys.id]);
    assert_eq!(found(filter().message_id(message)).await, [bobs]);
    assert_eq!(found(filter().message_id(message).actor("alice")).await, NONE);
    assert_eq!(found(filter()).await, [alices, bobs, nobodys.id]);
    let first = entries(audit, &filter().actor("alice")).await[0].began_at;
    assert_eq!(found(filter().actor("alice").began_from(first)).await, [alices], "from that moment on");
    assert_eq!(found(filter().actor("alice").began_before(first)).await, NONE, "and not that moment");
    assert_eq!(found(filter().began_before(SystemTime::UNIX_EPOCH)).await, NONE);
    let later = admin.now().await.expect("now") + Duration::from_secs(1);
    assert_eq!(found(filter().began_from(later)).await, NONE);
}

/// Old entries are removed, the oldest first, and no more than asked for.
pub async fn old_audit_entries_are_pruned(under_test: &dyn StoreUnderTest) {
    let Some(audit) = under_test.store().audit() else { return };
    for number in 0..3 {
        paused_by(under_test, "alice", &format!("topic{number}"), None).await;
    }
    under_test.advance(DAY * 2).await;
    let young = paused_by(under_test, "alice", "young", None).await;
    assert_eq!(audit.prune_audit(DAY * 3, 100).await.expect("prune"), 0);
    assert_eq!(audit.prune_audit(DAY, 2).await.expect("prune"), 2);
    assert_eq!(audit.prune_audit(DAY, 2).await.expect("prune"), 1);
    assert_eq!(audit.prune_audit(DAY, 2).await.expect("prune"), 0);
    let left: Vec<Uuid> = entries(audit, &AuditFilter::new()).await.iter().map(|entry| entry.id).collect();
    assert_eq!(left, [young]);
}

/// A note is an entry of its own, which has ended.
pub async fn audit_notes_what_changes_nothing(under_test: &dyn StoreUnderTest) {
    let Some(audit) = under_test.store().audit() else { return };
    audit.check_audit().await.expect("it can be recorded");
    let stop = AuditRecord { filter: Some(r#"{"action":"purge_all"}"#.into()), ..record("stop") };
    audit.note(&stop).await.expect("note");
    let found = entries(audit, &AuditFilter::new()).await;
    let [entry] = &found[..] else { panic!("one entry: {found:?}") };
    assert_eq!((entry.id, &*entry.action, entry.changed, entry.ended_at.is_some()), (stop.id, "stop", 1, true));
}
