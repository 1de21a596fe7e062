//! Every bound and default, and why it has its value.
//!
//! Fields of [`Limits`] are defaults that each relay can change; constants are fixed.

// The constants are for this crate and its tests, and some features leave some of them unused.
#![allow(unreachable_pub, dead_code, unused_imports)]

mod admin;
#[cfg(feature = "serde")]
mod configured;
mod consumers;
mod http;
mod inbox;
mod kafka;
mod lanes;
mod messages;
mod notices;
mod relay;
mod retention;
mod rocketmq;
mod setters;
mod stores;
mod topics;

pub use self::admin::*;
pub use self::consumers::*;
pub use self::http::*;
pub use self::inbox::*;
pub use self::kafka::*;
pub use self::lanes::*;
pub use self::messages::*;
pub use self::notices::*;
pub use self::relay::*;
pub use self::retention::*;
pub use self::rocketmq::*;
pub use self::stores::*;
pub use self::topics::*;
