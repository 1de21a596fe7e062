use std::fmt;

/// What somebody may do in the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Right {
    /// See everything except payloads, header values and the audit. Every page needs it.
    View,
    /// See payloads and header values, and search by header values.
    Payloads,
    /// See who did what.
    Audit,
    /// Pause and resume topics.
    Pause,
    /// Send a waiting message now.
    SendNow,
    /// Cancel a waiting message, so that it is never sent.
    Cancel,
    /// Send dead letters again.
    Redrive,
    /// Replace a dead letter with an edited message. Needs [`Payloads`](Self::Payloads), too.
    Edit,
    /// Delete dead letters.
    Purge,
    /// Send messages of the history again.
    Resend,
    /// Stop a bulk act in its middle, whoever started it.
    StopJobs,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 11] = [
        Self::View,
        Self::Payloads,
        Self::Audit,
        Self::Pause,
        Self::SendNow,
        Self::Cancel,
        Self::Redrive,
        Self::Edit,
        Self::Purge,
        Self::Resend,
        Self::StopJobs,
    ];

    /// Its name in configuration and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Payloads => "payloads",
            Self::Audit => "audit",
            Self::Pause => "pause",
            Self::SendNow => "send-now",
            Self::Cancel => "cancel",
            Self::Redrive => "redrive",
            Self::Edit => "edit",
            Self::Purge => "purge",
            Self::Resend => "resend",
            Self::StopJobs => "stop-jobs",
        }
    }

    /// The right of this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of rights.
///
/// ```
/// use diesel_outbox_web::{Right, Rights};
/// let rights: Rights = [Right::View, Right::Pause].into_iter().collect();
/// assert_eq!(rights, Rights::read_only().with(Right::Pause));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// No right.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Every right, and every one that a later version adds.
    pub const fn all() -> Self {
        Self(u16::MAX)
    }

    /// [`Right::View`] alone: nothing can be changed, and no payload is shown.
    pub const fn read_only() -> Self {
        Self(Right::View.bit())
    }

    /// With this right, too.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | right.bit())
    }

    /// Without this right.
    #[must_use]
    pub const fn without(self, right: Right) -> Self {
        Self(self.0 & !right.bit())
    }

    /// Whether it has this right.
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        rights.into_iter().fold(Self::none(), Self::with)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Right::ALL.into_iter().filter(|right| self.has(*right))).finish()
    }
}
