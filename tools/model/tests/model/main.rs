//! The protocol, checked: `cargo xtask test --only model`.

mod explore;
mod lanes;
mod lanes_bugs;
mod unordered;
mod unordered_bugs;
