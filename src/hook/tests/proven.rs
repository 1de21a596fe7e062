//! Which orders of events prove a commit.

use diesel::result::DatabaseErrorKind;

use super::{Bench, carried, error, row};
use crate::hook::Pending;
use crate::limits::CARRIED_ROWS_MAX;

#[test]
fn a_commit_right_behind_the_rows_proves_them() {
    let mut bench = Bench::begun();
    bench.statement("INSERT INTO shop_orders ..");
    bench.insert([1, 2], 1);
    bench.insert([3], 1);
    bench.commit(1);
    bench.statement("COMMIT");
    assert_eq!(bench.carried(), [(1, true), (2, true), (3, true)]);

    bench.begin(1);
    bench.insert([4], 1);
    bench.statement("SELECT 1");
    bench.insert([5], 1);
    bench.commit(1);
    bench.statement("COMMIT");
    assert_eq!(bench.carried(), [(4, false), (5, true)], "what came before a statement of others is not proven");
}

#[test]
fn whatever_comes_between_the_rows_and_a_commit_takes_the_proof_away() {
    type Events = fn(&mut Bench);
    let between: [(&str, Events); 9] = [
        ("a statement", |bench| {
            bench.statement("ROLLBACK; BEGIN");
            bench.commit(1);
            bench.statement("COMMIT");
        }),
        ("a statement whose end nobody saw", |bench| {
            bench.start("INSERT INTO nowhere ..");
            bench.commit(1);
            bench.statement("COMMIT");
        }),
        ("a savepoint", |bench| {
            bench.begin(2);
            bench.statement("SAVEPOINT diesel_savepoint_1");
            bench.roll_back(2);
            bench.statement("ROLLBACK TO SAVEPOINT diesel_savepoint_1");
            bench.commit(1);
            bench.statement("COMMIT");
        }),
        ("a COMMIT that never began", |bench| {
            bench.commit(1);
            bench.finish(None);
        }),
        ("another statement in the place of COMMIT", |bench| {
            bench.commit(1);
            bench.statement("SELECT 1");
        }),
        ("a COMMIT that does more", |bench| {
            bench.commit(1);
            bench.statement("COMMIT AND CHAIN");
        }),
        ("a doubtful end", |bench| {
            bench.commit(1);
            bench.start("COMMIT");
            bench.finish(Some(&error(DatabaseErrorKind::UnableToSendCommand, "connection reset")));
        }),
        ("an end that nobody saw", |bench| {
            bench.commit(1);
            bench.start("COMMIT");
            bench.begin(1);
        }),
        ("a statement sent together with COMMIT", |bench| {
            bench.hook.buffer.expect_before_commit(1);
            bench.commit(1);
            bench.start("INSERT INTO outbox_messages ..");
            bench.start("COMMIT");
            bench.finish(None);
            bench.finish(None);
        }),
    ];
    for (what, events) in between {
        let mut bench = Bench::begun();
        bench.insert([1], 1);
        events(&mut bench);
        assert_eq!(bench.carried(), [(1, false)], "{what}");
    }
}

/// As by a connection that does not show every statement, or on which somebody else's ran while ours was under way.
#[test]
fn rows_beside_which_more_or_less_than_their_insert_was_seen_are_read() {
    for (what, seen) in [("nothing", 0), ("two statements", 2)] {
        let mut bench = Bench::begun();
        let before = bench.hook.buffer.statements();
        (0..seen).for_each(|_| bench.statement("?"));
        let rows = vec![carried(row(1, &bench.link))];
        bench.hook.buffer.push(rows, 1, false, before);
        bench.commit(1);
        bench.statement("COMMIT");
        assert_eq!(bench.carried(), [(1, false)], "{what}");
    }
}

#[test]
fn a_bounded_number_of_rows_is_carried() {
    let mut bench = Bench::begun();
    let most = CARRIED_ROWS_MAX as i64;
    bench.insert(0..most - 1, 1);
    bench.insert([most, most + 1], 1);
    bench.insert([most + 2], 1);
    bench.commit(1);
    bench.statement("COMMIT");
    let (carried, read): (Vec<_>, Vec<_>) = bench.carried().into_iter().partition(|(_, is_carried)| *is_carried);
    assert_eq!((carried.len(), carried.last()), (CARRIED_ROWS_MAX, Some(&(most, true))));
    assert_eq!(read, [(most + 1, false), (most + 2, false)]);
}

/// Which rows of a lane the relay is told of before they are committed.
fn announced(bench: &mut Bench, lane: Option<u16>, events: impl FnOnce(&mut Bench)) -> Vec<bool> {
    let mut pending = carried(row(1, &bench.link));
    pending.row.lane = lane;
    bench.statement("INSERT INTO outbox_messages ..");
    let before = bench.hook.buffer.statements() - 1;
    bench.hook.buffer.push(vec![pending], 1, false, before);
    events(bench);
    let is_announced =
        |pending: &Pending| pending.row.carried.as_ref().is_some_and(|carried| carried.announced_at.is_some());
    bench.hook.buffer.pending.iter().map(is_announced).collect()
}

#[test]
fn a_row_of_a_lane_is_announced_when_a_commit_begins_that_may_prove_it() {
    let commit = |bench: &mut Bench| {
        bench.commit(1);
        bench.start("COMMIT");
    };
    assert_eq!(announced(&mut Bench::begun(), Some(3), commit), [true]);
    assert_eq!(announced(&mut Bench::begun(), None, commit), [false], "of no lane");
    assert_eq!(announced(&mut Bench::begun(), Some(3), |bench| bench.commit(1)), [false], "it did not begin");
    let behind_another = |bench: &mut Bench| {
        bench.statement("SELECT 1");
        commit(bench);
    };
    assert_eq!(announced(&mut Bench::begun(), Some(3), behind_another), [false], "it will not be proven");
    let together = |bench: &mut Bench| {
        bench.hook.buffer.expect_before_commit(1);
        bench.commit(1);
        bench.start("INSERT INTO outbox_messages ..");
        bench.start("COMMIT");
    };
    assert_eq!(announced(&mut Bench::begun(), Some(3), together), [false], "its INSERT may not have begun");
}
