//! One binary: what is generated, what it does, and what the compiler says of mistakes.

mod behaviour;
mod expansion;
mod fingerprint;
mod names;
mod ui;
