//! SQLite.

mod pools;
mod under_test;
