//! Bounds and times.

use std::time::Duration;

/// Requests that may use the database at once. A page runs one statement after another, so this is also how many connections pages
/// take at most: few, because each of them is one that the database has for nobody else.
pub(crate) const DATABASE_REQUESTS_MAX: usize = 4;

/// How long a request waits for its turn: longer than a page takes, and short for somebody who waits.
pub(crate) const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// Bulk acts that may run at once, each with one connection.
pub(crate) const JOBS_RUNNING_MAX: usize = 2;

/// Bulk acts that are remembered, the running ones included: what somebody may look back at. The audit has them all.
pub(crate) const JOBS_KEPT_MAX: usize = 50;

/// Reports of verifications that are remembered: what somebody may look back at.
pub(crate) const VERIFY_REPORTS_MAX: usize = 50;

/// Rows of a page. A live message comes with its payload, which may have a megabyte.
pub(crate) const PAGE_ROWS: usize = 50;

/// Blocked keys of a page: for each of them 1,000 rows before and behind it are read.
pub(crate) const PAGE_BLOCKED_KEYS: usize = 10;

/// Dead letters that the list's groups are counted from: tens of milliseconds.
pub(crate) const GROUPED_MAX: usize = 10_000;

/// Dead letters that a preview counts: more than anybody tells apart, in less time than anybody notices.
pub(crate) const PREVIEWED_MAX: usize = 20_000;

/// Sent messages that are counted per topic.
pub(crate) const SENT_COUNTED_MAX: usize = 10_000;

/// Bytes of a payload's text that a page shows.
pub(crate) const PAYLOAD_SHOWN_MAX: usize = 64 << 10;

/// Bytes of a payload that a page shows as hexadecimal numbers.
pub(crate) const BYTES_SHOWN_MAX: usize = 4 << 10;

/// Bytes of a payload that can be edited in a form: the largest message by default.
pub(crate) const EDITED_MAX: usize = 1 << 20;

/// Bytes of a request's body: an edited payload whose every byte is escaped, and the form around it.
pub(crate) const BODY_MAX: usize = 4 << 20;

/// How often the samples for the plots are taken: as often as a relay counts its backlog by default.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);

/// The samples of an hour.
pub(crate) const SAMPLES_MAX: usize = 121;

/// How often an open page refreshes itself: soon enough for somebody who watches, and rare for the database.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// Events of one stream: a quarter of a minute, by which an open page delays the shutdown of its server at most.
pub(crate) const EVENTS_MAX: usize = 3;

/// Open pages that refresh themselves. Further ones do not.
pub(crate) const STREAMS_MAX: usize = 64;

/// The hours that a calendar counts one by one, and the days.
pub(crate) const CALENDAR_HOURS: u32 = 12;
pub(crate) const CALENDAR_DAYS: u32 = 14;

/// Characters of an error that a table shows; the message's page has all of it.
pub(crate) const ERROR_CHARS_SHOWN_MAX: usize = 160;

/// How long browsers may keep a style sheet or a script: their URLs change with their contents.
pub(crate) const ASSET_AGE_SECONDS: u32 = 365 * 24 * 3_600;
