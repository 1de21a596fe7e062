//! The parser and the expansion, as syntax trees. What the expansion does is tested in `tests/derive`.

mod expansion;
mod fingerprint;
mod names;
