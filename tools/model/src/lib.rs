//! The protocol of diesel-outbox as a model, for [stateright] to walk through every order in which things can happen.
//!
//! A test of the library runs some schedules of the real code; this runs all schedules of a small world: two relays, up to
//! three messages, and a number of faults. What comes out is a proof for that world and no more. It says nothing about the
//! code, which is why every step names the files it mirrors ([`unordered::actions::Action::mirrors`],
//! [`lanes::actions::Action::mirrors`]): whoever changes the protocol in one of them changes the step, and lets the checker
//! speak.
//!
//! | module | what it models |
//! |---|---|
//! | [`unordered`] | messages of unordered topics: enqueue, hook, confirm, claim, settle, failures, leases, breaker |
//! | [`lanes`] | messages of ordered topics: who owns a lane, and the order of its keys |
//!
//! Each has planted mistakes of its own. A checker that finds none of them proves nothing.
//!
//! Nothing is shared with the library: what is written twice has to be wrong twice.

pub mod lanes;
pub mod relay;
pub mod unordered;
