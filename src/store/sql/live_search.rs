//! The search for live messages. Like that for dead letters its text is built for each search; it always begins with a range of the
//! index.

use super::binds::Binds;
use super::dialect::{Bind, BindOf, Statement};
use super::statements::live_pages::LivePageSql;
use super::text::StatementSql;
use crate::store::{LiveConditions, LivePosition, LiveRange, LiveScan, LiveState};

/// A WHERE with its binds.
pub(crate) struct LiveSearch<DB: Binds> {
    condition: String,
    binds: Vec<BindOf<DB>>,
}

impl<DB: Binds> LiveSearch<DB> {
    pub(crate) fn new(sql: &LivePageSql, scan: &LiveScan) -> Self {
        let (range, lane) = match scan.range {
            LiveRange::Unordered => (&sql.in_unordered, None),
            LiveRange::Due => (&sql.in_due, None),
            LiveRange::Later => (&sql.in_later, None),
            LiveRange::Lane(lane) => (&sql.in_lane, Some(Bind::Number(lane.into()))),
        };
        let binds = [Bind::text(&scan.topic)].into_iter().chain(lane).collect();
        let mut search = Self { condition: range.first().sql.clone(), binds };
        let is_lane = matches!(scan.range, LiveRange::Lane(_));
        for (comparison, position) in [(">", scan.after), ("<", scan.until)] {
            if let Some(position) = position {
                search.push_position(comparison, position, is_lane);
            }
        }
        search
    }

    /// Spelled out, because MySQL uses no index to compare rows; the first part finds the position in it. The row at the end of a scan
    /// belongs to it, the one at its beginning does not.
    fn push_position(&mut self, comparison: &str, LivePosition { due_at, id, .. }: LivePosition, is_lane: bool) {
        let or_equal = if comparison == "<" { "=" } else { "" };
        if is_lane {
            let id = self.bind(Bind::Number(DB::after(id)));
            self.condition += &format!(" AND id {comparison}{or_equal} {id}");
            return;
        }
        let (from, beyond) = (self.instant(due_at), self.instant(due_at));
        let id = self.bind(Bind::Number(DB::after(id)));
        self.condition += &format!(
            " AND due_at {comparison}= {from} AND (due_at {comparison} {beyond} OR id {comparison}{or_equal} {id})"
        );
    }

    pub(crate) fn push_conditions(&mut self, sql: &LivePageSql, conditions: &LiveConditions) {
        let is_delayed = &sql.is_delayed.first().sql;
        let LiveConditions { state, key, kind, header } = conditions;
        self.condition += &match state {
            None | Some(LiveState::Due | LiveState::Blocked) => String::new(),
            Some(LiveState::Leased) => format!(" AND NOT {is_delayed} AND failures <= 0"),
            Some(LiveState::Delayed) => format!(" AND {is_delayed}"),
            Some(LiveState::Retrying) => format!(" AND NOT {is_delayed} AND failures > 0"),
            Some(LiveState::InLane) => " AND failures <= 0".to_owned(),
        };
        for (column, text) in [(DB::KEY, key), ("kind", kind)] {
            if let Some(text) = text {
                let bound = self.bind(Bind::text(text));
                self.condition += &format!(" AND {column} = {bound}");
            }
        }
        if let Some(header) = header {
            let bound = self.bind(Bind::text(header));
            // Not LIKE, which would read the text as a pattern.
            self.condition += &format!(" AND {}(headers, {bound}) > 0", DB::POSITION);
        }
    }

    /// The rows that a search finds.
    pub(crate) fn rows(self, sql: &LivePageSql, rows_max: usize) -> Statement<DB> {
        let text = self.text(&sql.rows, rows_max);
        Statement::new(&StatementSql::plain(text), self.binds)
    }

    /// Where it ends.
    pub(crate) fn end(self, sql: &LivePageSql, rows_max: usize) -> Statement<DB> {
        let scan = self.text(&sql.positions, rows_max);
        let text = sql.scan_end.first().sql.replace("{scan}", &scan);
        Statement::new(&StatementSql::plain(text), self.binds)
    }

    fn text(&self, beginning: &StatementSql, rows_max: usize) -> String {
        format!("{} {} ORDER BY due_at, id LIMIT {rows_max}", beginning.first().sql, self.condition)
    }

    /// Binds a value; returns its placeholder.
    fn bind(&mut self, bind: BindOf<DB>) -> String {
        self.binds.push(bind);
        DB::SYNTAX.placeholders.of(self.binds.len())
    }

    fn instant(&mut self, raw: i64) -> String {
        DB::raw_instant_placeholder(self.bind(DB::raw_instant_bind(raw)))
    }
}
