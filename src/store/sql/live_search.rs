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

/// Row ids: after the first one, up to the second.
type Ids = (Option<i64>, Option<i64>);

impl<DB: Binds> LiveSearch<DB> {
    /// The searches that find the rows of a scan, one after the other.
    ///
    /// Thousands of rows may be due at one instant, so the index has to find the row id among them. Databases do that for an equal
    /// instant. MySQL and SQLite do not do it for a comparison of rows, `(due_at, id) > (.., ..)`: they read all that are due then.
    pub(crate) fn of(sql: &LivePageSql, scan: &LiveScan) -> Vec<Self> {
        let range = Self::of_range(sql, scan);
        let (after, until) = (scan.after, scan.until);
        if let LiveRange::Lane(_) = scan.range {
            return vec![range().between_ids((after.map(|row| row.id), until.map(|row| row.id)))];
        }
        let at = |LivePosition { due_at, .. }, ids: Ids| range().due_at("=", due_at).between_ids(ids);
        match (after, until) {
            (None, None) => vec![range()],
            (Some(after), None) => vec![at(after, (Some(after.id), None)), range().due_at(">", after.due_at)],
            (None, Some(until)) => vec![range().due_at("<", until.due_at), at(until, (None, Some(until.id)))],
            (Some(after), Some(until)) if after.due_at == until.due_at => {
                vec![at(after, (Some(after.id), Some(until.id)))]
            }
            (Some(after), Some(until)) => vec![
                at(after, (Some(after.id), None)),
                range().due_at(">", after.due_at).due_at("<", until.due_at),
                at(until, (None, Some(until.id))),
            ],
        }
    }

    fn of_range(sql: &LivePageSql, scan: &LiveScan) -> impl Fn() -> Self {
        let (range, lane) = match scan.range {
            LiveRange::Unordered => (&sql.in_unordered, None),
            LiveRange::Due => (&sql.in_due, None),
            LiveRange::Later => (&sql.in_later, None),
            LiveRange::Lane(lane) => (&sql.in_lane, Some(lane)),
        };
        move || {
            let lane = lane.map(|lane| Bind::Number(lane.into()));
            let binds = [Bind::text(&scan.topic)].into_iter().chain(lane).collect();
            Self { condition: range.first().sql.clone(), binds }
        }
    }

    fn due_at(mut self, comparison: &str, raw: i64) -> Self {
        let instant = DB::raw_instant_placeholder(self.bind(DB::raw_instant_bind(raw)));
        self.condition += &format!(" AND due_at {comparison} {instant}");
        self
    }

    fn between_ids(mut self, (after, until): Ids) -> Self {
        for (comparison, id) in [(">", after), ("<=", until)] {
            if let Some(id) = id {
                let id = self.bind(Bind::Number(DB::after(id)));
                self.condition += &format!(" AND id {comparison} {id}");
            }
        }
        self
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
    pub(crate) fn rows(mut self, sql: &LivePageSql, rows_max: usize) -> Statement<DB> {
        let text = self.text(&sql.rows, rows_max);
        Statement::new(&StatementSql::plain(text), self.binds)
    }

    /// Where it ends.
    pub(crate) fn end(mut self, sql: &LivePageSql, rows_max: usize) -> Statement<DB> {
        let positions = self.text(&sql.positions, rows_max);
        let text = sql.scan_end.first().sql.replace("{positions}", &positions);
        Statement::new(&StatementSql::plain(text), self.binds)
    }

    /// The limit is bound: it differs from page to page, and each text stays prepared.
    fn text(&mut self, beginning: &StatementSql, rows_max: usize) -> String {
        let limit = self.bind(Bind::limit(rows_max));
        format!("{} {} ORDER BY due_at, id LIMIT {limit}", beginning.first().sql, self.condition)
    }

    /// Binds a value; returns its placeholder.
    fn bind(&mut self, bind: BindOf<DB>) -> String {
        self.binds.push(bind);
        DB::SYNTAX.placeholders.of(self.binds.len())
    }
}
