use serde::Serialize;

/// A page of a list. Every list of [`Admin`](super::Admin) returns its pages in this shape: ask for the first page with no cursor, and for the next with
/// this page's [`next`](Self::next).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Page<T, C> {
    /// What it found, in the order that the method names.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last page. A page with few items, or none, may have a next one, too.
    #[serde(skip)]
    pub next: Option<C>,
}

impl<T, C> Default for Page<T, C> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}
