//! The protocol, checked: `cargo xtask test --only model`.

mod explore;
mod unordered;
mod unordered_bugs;
