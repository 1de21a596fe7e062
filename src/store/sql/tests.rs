use super::row_batch::{RowBatch, sorted_by_id};
use super::statements::Sql;
use super::text::{INJECTED_BUGS, Placeholders, Syntax};
use crate::message::MessageId;
use crate::naming::TableNames;
use crate::store::schema::IndexNaming;
use crate::store::{Held, RowKey};

fn statements(database: &'static str, placeholders: Placeholders) -> Sql {
    let syntax = Syntax { database, store: "Store", indexes: IndexNaming::ByTable, placeholders };
    Sql::new(Box::leak(Box::new(syntax)), &TableNames::default().prefix("shop_").unwrap())
}

#[test]
fn a_repeated_bind_is_bound_twice_with_positional_placeholders() {
    let sql = statements("mysql", Placeholders::Positional);
    let step = &sql.sent.of_key.first();
    assert_eq!(step.binds.as_deref(), Some([0, 1, 2, 2, 3, 4].as_slice()));
    assert_eq!(step.sql.matches('?').count(), 6, "{}", step.sql);
    assert!(!step.sql.contains("?1"), "{}", step.sql);
}

#[test]
fn numbered_binds_are_bound_once() {
    for (database, placeholders) in [("postgres", Placeholders::Dollar), ("sqlite", Placeholders::Numbered)] {
        let sql = statements(database, placeholders);
        assert_eq!(sql.sent.count.first().binds.as_deref(), Some([0, 1].as_slice()), "{database}");
    }
    // Several lanes in one text: binds in the order given.
    assert_eq!(statements("sqlite", Placeholders::Numbered).lane_rows.entries.first().binds, None);
}

#[test]
fn no_fragment_is_left_unreplaced() {
    for (database, placeholders) in
        [("postgres", Placeholders::Dollar), ("mysql", Placeholders::Positional), ("sqlite", Placeholders::Numbered)]
    {
        let all = format!("{:?}", statements(database, placeholders));
        let unfinished = [
            "{now}",
            "{ids}",
            "{rows}",
            "{requeues}",
            "{epoch}",
            "{keep",
            "{held}",
            "{owned}",
            "{page}",
            "{sent",
            "{late}",
        ];
        for part in unfinished.into_iter().chain([
            "{dead_letter}",
            "{errors}",
            "{failure}",
            "{failed_at}",
            "{is_",
            "{from",
            "{locking}",
            "{reason}",
            "{scan}",
        ]) {
            assert!(!all.contains(part), "{database}: {part}");
        }
        assert!(all.contains("shop_messages") && !all.contains("outbox_messages "), "{database}");
    }
}

#[test]
fn injected_bugs_find_their_text() {
    let Sql { claims, live, dead_letters, .. } = statements("postgres", Placeholders::Dollar);
    // Those that move offsets are of consumers, and have a test there.
    for (name, _, [right, _]) in INJECTED_BUGS.iter().filter(|(name, ..)| !name.starts_with("move_offset")) {
        let text = match *name {
            "claim" => &claims.claim,
            "dead_letter" => &live.dead_letter,
            "settle" => &live.settle,
            "settle_waiting" => &live.settle_waiting,
            "redrive" => &dead_letters.redrive,
            name => panic!("no test knows where {name} stands"),
        };
        assert!(text.first().sql.contains(right), "{name}: {right}");
    }
}

fn held(id: i64, epoch: i32) -> Held {
    Held { key: RowKey { id, message_id: MessageId::new() }, epoch }
}

#[test]
fn rows_that_could_not_be_locked_leave_their_batch() {
    let rows = [held(3, 30), held(1, 10), held(2, 20)];
    let sorted = sorted_by_id(&rows, |row| row.key);
    let mut batch =
        RowBatch::held(sorted.iter().map(|row| **row)).texts(sorted.iter().map(|row| format!("of {}", row.key.id)));
    batch.retain(&[rows[0].key, rows[1].key]);
    let expected =
        RowBatch::held([rows[1], rows[0]].into_iter()).texts(["of 1", "of 3"].into_iter().map(str::to_owned));
    assert_eq!(format!("{batch:?}"), format!("{expected:?}"));
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
#[test]
fn json_of_a_batch_has_the_columns_that_are_read() {
    let batch = RowBatch::held([held(1, 7)].into_iter()).texts(["a \"b\"".to_owned()].into_iter());
    let json = |width| batch.json(width, |key| vec![key.id.into()]);
    assert_eq!(json(1), "[[1]]");
    assert_eq!(json(2), "[[1,7]]");
    assert_eq!(json(3), r#"[[1,7,"a \"b\""]]"#);
}
