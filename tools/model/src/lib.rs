//! The protocol of diesel-outbox as a model. [stateright] explores every order of events.
//!
//! A test of the library runs some schedules of the real code. This runs all schedules of a small world: two relays or
//! consumers, a few messages, and a number of faults. The result is a proof for that world and no more. It says nothing
//! about the code, so every step names the files that it mirrors ([`unordered::actions::Action::mirrors`], and the same
//! of the other modules): whoever changes the protocol in one of them also changes the step, and runs the checker.
//!
//! | module | what it models |
//! |---|---|
//! | [`unordered`] | messages of unordered topics: enqueue, hook, confirm, claim, settle, failures, leases, breaker |
//! | [`lanes`] | messages of ordered topics: who owns a lane, and the order of its keys |
//! | [`consumers`] | records of a log: claims, offsets, rebalances, and what each message does to the database |
//!
//! Each has its own injected bugs. A checker that does not find them proves nothing.
//!
//! Nothing is shared with the library: what is written twice has to be wrong twice.

pub mod consumers;
pub mod lanes;
pub mod relay;
pub mod unordered;
