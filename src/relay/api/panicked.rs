/// The thread of a [`BlockingRelay`](crate::relay::BlockingRelay) ended by a panic: of a store, a transport, or the relay
/// itself. The process's panic hook has printed the panic's message.
///
/// Nothing is lost: what was committed is in the table. You can start a new relay of the same outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the relay's thread ended by a panic: nothing is sent until another relay is started")]
pub struct RelayPanicked(());

impl RelayPanicked {
    pub(in crate::relay) const fn new() -> Self {
        Self(())
    }
}
