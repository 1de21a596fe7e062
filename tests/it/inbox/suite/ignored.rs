//! Handlers that ignore the error of a statement and return `Ok`.

use diesel_outbox::MessageId;
use diesel_outbox::inbox::{InboxError, InboxKey, Once};

use super::on_each_database;
use crate::inbox::inbox;
use crate::inbox::node::{Database, Failed, NEVER, Node, Place};

on_each_database!(
    an_ignored_error_that_ends_the_transaction_is_no_success,
    a_batch_that_ignored_such_an_error_is_handled_one_by_one,
    an_ignored_error_in_a_savepoint_does_no_harm,
);

/// A statement after which nothing of the transaction can commit.
fn ends_the_transaction(on: Database) -> &'static str {
    match on {
        Database::Postgres => "SELECT 1 / 0",
        // As a deadlock does on MariaDB, and a full disk on SQLite.
        Database::Mariadb | Database::Sqlite => "ROLLBACK",
    }
}

fn an_ignored_error_that_ends_the_transaction_is_no_success<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), InboxKey::from(MessageId::new()));
    let failed = node.ignoring(&inbox, &[key], &[ends_the_transaction(N::DATABASE)]).remove(0).expect_err("no success");
    let is_clear = match N::DATABASE {
        Database::Postgres => matches!(failed, Failed::Inbox(InboxError::TransactionAborted { .. })),
        Database::Mariadb => matches!(failed, Failed::Inbox(InboxError::TransactionLost { .. })),
        Database::Sqlite => matches!(failed, Failed::Inbox(InboxError::Database(_))),
    };
    assert!(is_clear, "{failed:?}");
    assert_eq!((place.effects(key), place.entries()), (0, 0));
    // SQLite's connection is broken, and pools discard it.
    let mut node = if N::DATABASE == Database::Sqlite { place.node() } else { node };
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()));
    assert_eq!((place.effects(key), place.entries()), (1, 1));
}

fn a_batch_that_ignored_such_an_error_is_handled_one_by_one<N: Node>() {
    // The batch breaks SQLite's connection, so nothing more can be handled on it.
    if N::DATABASE == Database::Sqlite {
        return;
    }
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let keys = [(); 3].map(|()| InboxKey::from(MessageId::new()));
    let handled = place.node().ignoring(&inbox, &keys, &[ends_the_transaction(N::DATABASE)]);
    assert!(handled.iter().all(|one| matches!(one, Ok(Once::Done(())))), "{handled:?}");
    assert_eq!(keys.map(|key| place.effects(key)), [1, 1, 1]);
}

fn an_ignored_error_in_a_savepoint_does_no_harm<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let statements = ["SAVEPOINT mine", "INSERT INTO missing VALUES (1)", "ROLLBACK TO SAVEPOINT mine"];
    let (mut node, key) = (place.node(), InboxKey::from(MessageId::new()));
    assert_eq!(node.ignoring(&inbox, &[key], &statements).remove(0).expect("once"), Once::Done(()));
    assert_eq!((place.effects(key), place.entries()), (1, 1));
}
