//! The cases, each a function of its own.

mod backlog;
mod cancel;
mod claim;
mod close;
mod confirm;
mod content;
mod dead;
mod due;
mod fail;
mod groups;
mod halves;
mod hold;
mod lanes;
mod letters;
mod pauses;
mod send_now;
mod settle;

pub use backlog::*;
pub use cancel::*;
pub use claim::*;
pub use close::*;
pub use confirm::*;
pub use content::*;
pub use dead::*;
pub use due::*;
pub use fail::*;
pub use groups::*;
pub use halves::*;
pub use hold::*;
pub use lanes::*;
pub use letters::*;
pub use pauses::*;
pub use send_now::*;
pub use settle::*;
