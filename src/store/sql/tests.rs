use super::group::{Group, ascending};
use super::statements::Texts;
use crate::message::MessageId;
use crate::naming::TableNames;
use crate::store::schema::IndexNaming;
use crate::store::text::{MISTAKES, Placeholders, Words};
use crate::store::{Held, RowKey};

fn texts(database: &'static str, placeholders: Placeholders) -> Texts {
    let words = Words { database, store: "Store", indexes: IndexNaming::ByTable, placeholders };
    Texts::new(Box::leak(Box::new(words)), &TableNames::default().prefix("shop_").unwrap())
}

#[test]
fn a_bind_that_stands_twice_is_bound_twice_where_places_alone_say_which() {
    let texts = texts("mysql", Placeholders::Places);
    let step = &texts.sent.of_key.first();
    assert_eq!(step.binds.as_deref(), Some([0, 1, 2, 2, 3, 4].as_slice()));
    assert_eq!(step.sql.matches('?').count(), 6, "{}", step.sql);
    assert!(!step.sql.contains("?1"), "{}", step.sql);
}

#[test]
fn numbered_binds_are_bound_once() {
    for (database, placeholders) in [("postgres", Placeholders::Dollars), ("sqlite", Placeholders::Numbers)] {
        let texts = texts(database, placeholders);
        assert_eq!(texts.sent.count.first().binds.as_deref(), Some([0, 1].as_slice()), "{database}");
    }
    // Several lanes in one text: as they come.
    assert_eq!(texts("sqlite", Placeholders::Numbers).lane_rows.entries.first().binds, None);
}

#[test]
fn no_text_is_left_unfinished() {
    for (database, placeholders) in
        [("postgres", Placeholders::Dollars), ("mysql", Placeholders::Places), ("sqlite", Placeholders::Numbers)]
    {
        let all = format!("{:?}", texts(database, placeholders));
        let unfinished = [
            "{now}", "{ids}", "{rows}", "{back}", "{epoch}", "{keep", "{held}", "{owned}", "{page}", "{sent", "{late}",
        ];
        for part in unfinished.into_iter().chain([
            "{bury}",
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
fn what_a_planted_mistake_changes_is_there() {
    let Texts { claims, live, letters, .. } = texts("postgres", Placeholders::Dollars);
    for (name, _, [right, _]) in MISTAKES {
        let text = match *name {
            "claim" => &claims.claim,
            "dead" => &live.dead,
            "settle" => &live.settle,
            "settle_waiting" => &live.settle_waiting,
            "redrive" => &letters.redrive,
            name => panic!("no test knows where {name} stands"),
        };
        assert!(text.first().sql.contains(right), "{name}: {right}");
    }
}

fn held(id: i64, epoch: i32) -> Held {
    Held { key: RowKey { id, message_id: MessageId::new() }, epoch }
}

#[test]
fn what_could_not_be_locked_leaves_its_group_with_all_that_was_said_of_it() {
    let rows = [held(3, 30), held(1, 10), held(2, 20)];
    let sorted = ascending(&rows, |row| row.key);
    let mut group =
        Group::held(sorted.iter().map(|row| **row)).texts(sorted.iter().map(|row| format!("of {}", row.key.id)));
    group.retain(&[rows[0].key, rows[1].key]);
    let expected = Group::held([rows[1], rows[0]].into_iter()).texts(["of 1", "of 3"].into_iter().map(str::to_owned));
    assert_eq!(format!("{group:?}"), format!("{expected:?}"));
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
#[test]
fn json_of_a_group_goes_as_far_as_it_is_read() {
    let group = Group::held([held(1, 7)].into_iter()).texts(["a \"b\"".to_owned()].into_iter());
    let json = |width| group.json(width, |key| vec![key.id.into()]);
    assert_eq!(json(1), "[[1]]");
    assert_eq!(json(2), "[[1,7]]");
    assert_eq!(json(3), r#"[[1,7,"a \"b\""]]"#);
}
