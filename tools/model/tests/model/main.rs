//! The protocol, checked: `cargo xtask test --only model`.

mod consumers;
mod consumers_bugs;
mod explore;
mod lanes;
mod lanes_bugs;
mod unordered;
mod unordered_bugs;
