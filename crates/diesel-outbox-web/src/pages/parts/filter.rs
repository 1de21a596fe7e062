//! Fields of filters.

use maud::{Markup, html};

/// A text field. An empty one is sent as such, and means nothing.
pub(crate) fn text(label: &str, name: &str, value: Option<&str>) -> Markup {
    html! {
        label { (label) input name=(name) value=(value.unwrap_or_default()); }
    }
}

/// A time in UTC.
pub(crate) fn time(label: &str, name: &str, value: Option<&str>) -> Markup {
    html! {
        label { (label) " (UTC)" input type="datetime-local" name=(name) value=(value.unwrap_or_default()); }
    }
}

/// One of several values, with their names; with `any` also none of them.
pub(crate) fn choice<'a>(
    label: &str,
    name: &str,
    any: Option<&str>,
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: Option<&str>,
) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                @if let Some(any) = any { option value="" { (any) } }
                @for (value, text) in values { option value=(value) selected[chosen == Some(value)] { (text) } }
            }
        }
    }
}

/// A value of a query, if it is not empty.
pub(crate) fn given(value: &Option<String>) -> Option<&str> {
    value.as_deref().map(str::trim).filter(|value| !value.is_empty())
}
