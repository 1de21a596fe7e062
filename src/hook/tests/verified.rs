//! The orders of events that verify a commit.

use diesel::result::DatabaseErrorKind;

use super::{HookFixture, error, inline, row};
use crate::hook::Pending;
use crate::limits::INLINE_ROWS_MAX;

#[test]
fn a_commit_right_after_the_rows_verifies_them() {
    let mut bench = HookFixture::begun();
    bench.statement("INSERT INTO shop_orders ..");
    bench.insert([1, 2], 1);
    bench.insert([3], 1);
    bench.commit(1);
    bench.statement("COMMIT");
    assert_eq!(bench.inline(), [(1, true), (2, true), (3, true)]);

    bench.begin(1);
    bench.insert([4], 1);
    bench.statement("SELECT 1");
    bench.insert([5], 1);
    bench.commit(1);
    bench.statement("COMMIT");
    assert_eq!(bench.inline(), [(4, false), (5, true)], "rows before another statement are not verified");
}

#[test]
fn anything_between_the_rows_and_a_commit_prevents_verification() {
    type Events = fn(&mut HookFixture);
    let between: [(&str, Events); 9] = [
        ("a statement", |bench| {
            bench.statement("ROLLBACK; BEGIN");
            bench.commit(1);
            bench.statement("COMMIT");
        }),
        ("a statement whose end was not seen", |bench| {
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
        ("another statement instead of COMMIT", |bench| {
            bench.commit(1);
            bench.statement("SELECT 1");
        }),
        ("a COMMIT that does more", |bench| {
            bench.commit(1);
            bench.statement("COMMIT AND CHAIN");
        }),
        ("an unknown end", |bench| {
            bench.commit(1);
            bench.start("COMMIT");
            bench.finish(Some(&error(DatabaseErrorKind::UnableToSendCommand, "connection reset")));
        }),
        ("an end that was not seen", |bench| {
            bench.commit(1);
            bench.start("COMMIT");
            bench.begin(1);
        }),
        ("a statement sent together with COMMIT", |bench| {
            bench.hook.buffer.expect_statements_before_commit(1);
            bench.commit(1);
            bench.start("INSERT INTO outbox_messages ..");
            bench.start("COMMIT");
            bench.finish(None);
            bench.finish(None);
        }),
    ];
    for (what, events) in between {
        let mut bench = HookFixture::begun();
        bench.insert([1], 1);
        events(&mut bench);
        assert_eq!(bench.inline(), [(1, false)], "{what}");
    }
}

/// As on a connection that does not show every statement, or on which another statement ran during ours.
#[test]
fn rows_with_more_or_fewer_statements_than_their_insert_are_read() {
    for (what, seen) in [("nothing", 0), ("two statements", 2)] {
        let mut bench = HookFixture::begun();
        let before = bench.hook.buffer.statements();
        (0..seen).for_each(|_| bench.statement("?"));
        let rows = vec![inline(row(1, &bench.link))];
        bench.hook.buffer.push(rows, 1, false, before);
        bench.commit(1);
        bench.statement("COMMIT");
        assert_eq!(bench.inline(), [(1, false)], "{what}");
    }
}

#[test]
fn a_bounded_number_of_rows_is_inline() {
    let mut bench = HookFixture::begun();
    let most = INLINE_ROWS_MAX as i64;
    bench.insert(0..most - 1, 1);
    bench.insert([most, most + 1], 1);
    bench.insert([most + 2], 1);
    bench.commit(1);
    bench.statement("COMMIT");
    let (inline, read): (Vec<_>, Vec<_>) = bench.inline().into_iter().partition(|(_, is_inline)| *is_inline);
    assert_eq!((inline.len(), inline.last()), (INLINE_ROWS_MAX, Some(&(most, true))));
    assert_eq!(read, [(most + 1, false), (most + 2, false)]);
}

/// Whether the relay is notified of a lane's rows before they are committed.
fn announced(bench: &mut HookFixture, lane: Option<u16>, events: impl FnOnce(&mut HookFixture)) -> Vec<bool> {
    let mut pending = inline(row(1, &bench.link));
    pending.row.lane = lane;
    bench.statement("INSERT INTO outbox_messages ..");
    let before = bench.hook.buffer.statements() - 1;
    bench.hook.buffer.push(vec![pending], 1, false, before);
    events(bench);
    let is_announced =
        |pending: &Pending| pending.row.inline.as_ref().is_some_and(|inline| inline.announced_at.is_some());
    bench.hook.buffer.pending.iter().map(is_announced).collect()
}

#[test]
fn a_lane_row_is_announced_when_a_verifying_commit_begins() {
    let commit = |bench: &mut HookFixture| {
        bench.commit(1);
        bench.start("COMMIT");
    };
    assert_eq!(announced(&mut HookFixture::begun(), Some(3), commit), [true]);
    assert_eq!(announced(&mut HookFixture::begun(), None, commit), [false], "rows without a lane");
    assert_eq!(
        announced(&mut HookFixture::begun(), Some(3), |bench| bench.commit(1)),
        [false],
        "the COMMIT did not begin"
    );
    let behind_another = |bench: &mut HookFixture| {
        bench.statement("SELECT 1");
        commit(bench);
    };
    assert_eq!(announced(&mut HookFixture::begun(), Some(3), behind_another), [false], "it will not be verified");
    let together = |bench: &mut HookFixture| {
        bench.hook.buffer.expect_statements_before_commit(1);
        bench.commit(1);
        bench.start("INSERT INTO outbox_messages ..");
        bench.start("COMMIT");
    };
    assert_eq!(announced(&mut HookFixture::begun(), Some(3), together), [false], "the INSERT may not have begun");
}
