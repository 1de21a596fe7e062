//! After a transport panicked, it gets one message at a time for a while, so that the message that causes the panic
//! blocks no other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::BootInstant;
use crate::limits::SEND_ONE_BY_ONE_DURATION;

/// Until when to send one by one; `None` normally.
#[derive(Debug, Default)]
pub(crate) struct OneByOne(Mutex<Option<BootInstant>>);

impl OneByOne {
    /// The transport panicked.
    pub(crate) fn begin(&self, now: BootInstant) {
        *self.until() = Some(now + SEND_ONE_BY_ONE_DURATION);
    }

    pub(crate) fn is_on(&self, now: BootInstant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    fn until(&self) -> MutexGuard<'_, Option<BootInstant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::TEMPORARY_WAIT_MAX;

    #[test]
    fn it_begins_with_a_panic_and_ends_by_itself() {
        let (one_by_one, now) = (OneByOne::default(), BootInstant::from_boot(Duration::from_secs(1)));
        assert!(!one_by_one.is_on(now));
        one_by_one.begin(now);
        assert!(one_by_one.is_on(now) && !one_by_one.is_on(now + SEND_ONE_BY_ONE_DURATION));
        assert!(one_by_one.is_on(now + TEMPORARY_WAIT_MAX), "the message that caused it comes back alone");
    }
}
