/// The thread of a blocking relay ended by a panic: of a store or a transport, or of the relay itself. The panic's
/// own message went where the process's panics go.
///
/// Nothing is lost: what was committed is in the table. A new relay of the same outbox can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the relay's thread ended by a panic: nothing is sent until another relay is started")]
pub struct RelayPanicked(());

impl RelayPanicked {
    pub(in crate::relay) const fn new() -> Self {
        Self(())
    }
}
