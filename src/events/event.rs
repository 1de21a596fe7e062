use tracing::Level;

/// One kind of log event.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Event {
    /// Its id, the value of the field `event`.
    pub id: &'static str,
    /// Its level. ERROR: somebody must act. WARN: mostly recovers by itself; [`action`](Self::action) says what to change if it
    /// does not.
    pub level: Level,
    /// Its other fields. An event may lack some of them.
    pub fields: &'static [&'static str],
    /// Its message.
    pub text: &'static str,
    /// What to do about it.
    pub action: &'static str,
}
