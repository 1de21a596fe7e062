//! The same chain as it is taught: what the common recipe does in the same faults.
//!
//! | recipe | here | what it costs |
//! |---|---|---|
//! | SETNX on the key before the work, DEL on an error | `shop` | a death in between leaves the key: the client never gets its order |
//! | read the stock, compare, then decrease it | `shop` | two requests read the same number |
//! | on an error increase the stock again | `shop` | of a COMMIT without an answer it is a guess |
//! | a table of messages with a status, polled each second | `jobs` | a message is late, and sent twice if a process dies before the UPDATE |
//! | a scan for unpaid orders | `jobs` | a payment in between is overwritten |
//! | the consumer looks whether it knows the order, then works | `consumers` | offsets are committed in the background, before the work |
//! | reconciliation within ±10 | `reconcile` | a product that is oversold by ten units is in order, and so is a message that was lost |

mod cache;
mod consumers;
mod jobs;
mod reconcile;
mod run;
mod shop;
mod tables;

pub(crate) use self::reconcile::Reconciled;
pub use self::run::run;
pub(crate) use self::run::{REST, SETTLED_MAX, measure, run_through};
