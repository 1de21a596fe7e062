//! Each test runs the program, as an operator does.

mod bundle;
mod completions;
mod editing;
mod errors;
mod exits;
mod killed;
mod mounted;
mod parked;
mod program;
mod shop;
mod tail;
mod terminal;
mod transcript;
mod transcripts;
mod verify;
mod web;
