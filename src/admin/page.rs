use super::cursor::{Cursor, List, Position};

/// A page of a list. From the methods of [`Admin`](super::Admin) that list something: the first page comes without a cursor, each
/// further one with the [`next`](Self::next) of the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// What it found, in the order that the method names.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last page. A page with few items, or none, may have a next one, too.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// A page of at most `items_max`. If it is full, the next one begins after its last item.
    pub(super) fn of<P: Position>(list: List, items: Vec<T>, items_max: usize, position: impl FnOnce(&T) -> P) -> Self {
        let next = items.last().filter(|_| items.len() == items_max).map(position);
        Self::up_to(list, items, next)
    }

    /// A page whose next one begins at `next`.
    pub(super) fn up_to(list: List, items: Vec<T>, next: Option<impl Position>) -> Self {
        Self { items, next: next.map(|next| Cursor::at(list, &next)) }
    }
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}
