/// A page of a list. From the methods of [`Admin`](super::Admin) that list something: the first page comes without a cursor, each
/// further one with the [`next`](Self::next) of the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T, C> {
    /// What it found, in the order that the method names.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last page. A page with few items, or none, may have a next one, too.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// A page of at most `items_max`. If it is full, the next one begins after its last item.
    pub(super) fn of(items: Vec<T>, items_max: usize, cursor: impl FnOnce(&T) -> C) -> Self {
        let next = items.last().filter(|_| items.len() == items_max).map(cursor);
        Self { items, next }
    }
}

impl<T, C> Default for Page<T, C> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}
