//! Every bound and default, each with its argument.
//!
//! The values are defaults of [`Limits`] and can be changed per relay; the constants bound what is fixed.

mod http;
mod kafka;
mod lanes;
mod messages;
mod notices;
mod relay;
mod retention;
mod rocketmq;
mod stores;

pub use self::http::*;
pub use self::kafka::*;
pub use self::lanes::*;
pub use self::messages::*;
pub use self::notices::*;
pub use self::relay::*;
pub use self::retention::*;
pub use self::rocketmq::*;
pub use self::stores::*;
