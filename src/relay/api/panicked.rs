/// The thread of a blocking relay panicked, in the store, in a transport or in the relay itself. The process's panic hook has
/// the panic's message.
///
/// Nothing is lost: committed messages are in the table. Start a new relay of the same outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the relay's thread ended by a panic: nothing is sent until another relay is started")]
pub struct RelayPanicked(());

impl RelayPanicked {
    pub(in crate::relay) const fn new() -> Self {
        Self(())
    }
}
