//! Forms that change something. Each asks for a reason, which the audit keeps.

use maud::{Markup, html};

use crate::visit::Link;

/// How serious an act is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Usual,
    /// It cannot be undone.
    Final,
}

/// A form behind its name, so that no click acts by itself.
pub(crate) fn form(name: &str, kind: Kind, to: &Link, fields: &[(&str, &str)]) -> Markup {
    html! {
        details {
            summary { (name) }
            form method="post" action=(to) {
                (hidden(fields))
                (reason())
                (button(name, kind))
            }
        }
    }
}

pub(crate) fn hidden(fields: &[(&str, &str)]) -> Markup {
    html! {
        @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
    }
}

pub(crate) fn reason() -> Markup {
    html! {
        label { "Reason, for the audit" input name="reason" required maxlength="200" size="32"; }
    }
}

pub(crate) fn button(name: &str, kind: Kind) -> Markup {
    html! {
        button.danger[kind == Kind::Final] { (name) }
    }
}
