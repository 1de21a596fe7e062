//! Sorting off the threads of the runtime: a full buffer takes a tenth of a second to sort and write.

use std::io;
use std::panic;

use crate::error::VerifyError;
use crate::sorter::{SortLimits, Sortable, Sorter};

/// Runs what blocks on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
    limits: &SortLimits,
) -> Result<T, VerifyError> {
    let done = match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(payload) => panic::resume_unwind(payload),
            Err(_) => Err(io::Error::other("the runtime shuts down")),
        },
    };
    done.map_err(|error| VerifyError::Files { folder: limits.folder.display().to_string(), error })
}

/// A sorter that async code fills.
#[derive(Debug)]
pub(crate) struct Spilling<E> {
    limits: SortLimits,
    /// `None` only while a thread has it.
    sorter: Option<Sorter<E>>,
}

impl<E: Sortable> Spilling<E> {
    pub(crate) fn new(limits: &SortLimits) -> Self {
        Self { limits: limits.clone(), sorter: Some(Sorter::new(limits)) }
    }

    pub(crate) async fn push_all(&mut self, entries: Vec<E>) -> Result<(), VerifyError> {
        let mut sorter = self.take();
        let work = move || {
            entries.into_iter().try_for_each(|entry| sorter.push(entry))?;
            Ok(sorter)
        };
        self.sorter = Some(blocking(work, &self.limits).await?);
        Ok(())
    }

    pub(crate) fn into_sorter(mut self) -> Sorter<E> {
        self.take()
    }

    /// After an error, or if a call was dropped, nothing of what was pushed is left.
    fn take(&mut self) -> Sorter<E> {
        self.sorter.take().unwrap_or_else(|| Sorter::new(&self.limits))
    }
}
