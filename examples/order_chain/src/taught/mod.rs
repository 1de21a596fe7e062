//! The same chain as it is taught: what the common recipe does in the same faults.
//!
//! | recipe | here | what it costs |
//! |---|---|---|
//! | SETNX on the key before the work, DEL on an error | `shop.rs` | a death in between leaves the key: the client never gets its order |
//! | read the stock, compare, then decrease it | `shop.rs` | two requests read the same number |
//! | on an error increase the stock again | `shop.rs` | of a COMMIT without an answer it is a guess |
//! | a table of messages with a status, polled each second | `jobs.rs` | a message is late, and sent twice if a process dies before the UPDATE |
//! | a scan for unpaid orders | `jobs.rs` | a payment in between is overwritten |
//! | the consumer looks whether it knows the order, then works | `consumers.rs` | offsets are committed in the background, before the work |
//! | reconciliation within ±10 | `run.rs` | it finds nothing |

mod cache;
mod consumers;
mod jobs;
mod run;
mod shop;
mod tables;

pub use self::run::run;
