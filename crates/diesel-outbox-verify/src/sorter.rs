//! Sorts more entries than memory holds: full buffers are sorted and written to files without names, which are then read side by side.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::marker::PhantomData;
use std::path::PathBuf;

use crate::limits::{RUN_BUFFER_BYTES, RUNS_MAX, SORTED_ENTRIES_MAX};

/// An entry of a fixed size.
pub(crate) trait Sortable: Copy + Ord + Send + 'static {
    /// The size of its written form.
    const BYTES: usize;

    fn write(&self, out: &mut Vec<u8>);

    fn read(bytes: &mut Bytes<'_>) -> Self;
}

/// The written form of an entry, field by field.
pub(crate) struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) =
            self.0.split_first_chunk().unwrap_or_else(|| unreachable!("an entry has all of its fields"));
        self.0 = rest;
        *taken
    }
}

/// How many entries are in memory, how many files are read at once, and where the files are.
#[derive(Debug, Clone)]
pub(crate) struct SortLimits {
    pub(crate) entries_max: usize,
    pub(crate) runs_max: usize,
    pub(crate) folder: PathBuf,
}

impl Default for SortLimits {
    fn default() -> Self {
        Self { entries_max: SORTED_ENTRIES_MAX, runs_max: RUNS_MAX, folder: std::env::temp_dir() }
    }
}

/// Takes entries in any order.
#[derive(Debug)]
pub(crate) struct Sorter<E> {
    limits: SortLimits,
    buffer: Vec<E>,
    runs: Vec<File>,
    /// Files written in all, for tests.
    written: usize,
}

impl<E: Sortable> Sorter<E> {
    pub(crate) fn new(limits: &SortLimits) -> Self {
        Self { limits: limits.clone(), buffer: Vec::new(), runs: Vec::new(), written: 0 }
    }

    pub(crate) fn push(&mut self, entry: E) -> io::Result<()> {
        self.buffer.push(entry);
        if self.buffer.len() >= self.limits.entries_max { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.buffer.sort_unstable();
        if self.runs.len() >= self.limits.runs_max {
            let runs = Sorted::new(std::mem::take(&mut self.runs), Vec::new())?;
            let merged = self.write(runs)?;
            self.runs.push(merged);
        }
        let buffer = std::mem::take(&mut self.buffer);
        let run = self.write(buffer.iter().map(|entry| Ok(*entry)))?;
        self.runs.push(run);
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, entries: impl Iterator<Item = io::Result<E>>) -> io::Result<File> {
        let mut out = BufWriter::with_capacity(RUN_BUFFER_BYTES, tempfile::tempfile_in(&self.limits.folder)?);
        let mut bytes = Vec::with_capacity(E::BYTES);
        for entry in entries {
            bytes.clear();
            entry?.write(&mut bytes);
            out.write_all(&bytes)?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.written += 1;
        Ok(file)
    }

    /// Every entry, sorted.
    pub(crate) fn sorted(mut self) -> io::Result<Sorted<E>> {
        self.buffer.sort_unstable();
        Sorted::new(self.runs, self.buffer)
    }
}

/// Entries in their order.
pub(crate) struct Sorted<E> {
    runs: Vec<Run<E>>,
    /// The next entry of each run.
    next: BinaryHeap<Reverse<(E, usize)>>,
}

impl<E: Sortable> Sorted<E> {
    fn new(files: Vec<File>, buffer: Vec<E>) -> io::Result<Self> {
        let files =
            files.into_iter().map(|file| Run::File(BufReader::with_capacity(RUN_BUFFER_BYTES, file), PhantomData));
        let mut sorted =
            Self { runs: files.chain([Run::Memory(buffer.into_iter())]).collect(), next: BinaryHeap::new() };
        for run in 0..sorted.runs.len() {
            sorted.read(run)?;
        }
        Ok(sorted)
    }

    fn read(&mut self, run: usize) -> io::Result<()> {
        if let Some(entry) = self.runs[run].next()? {
            self.next.push(Reverse((entry, run)));
        }
        Ok(())
    }
}

impl<E: Sortable> Iterator for Sorted<E> {
    type Item = io::Result<E>;

    fn next(&mut self) -> Option<io::Result<E>> {
        let Reverse((entry, run)) = self.next.pop()?;
        Some(self.read(run).map(|()| entry))
    }
}

enum Run<E> {
    File(BufReader<File>, PhantomData<E>),
    Memory(std::vec::IntoIter<E>),
}

impl<E: Sortable> Run<E> {
    fn next(&mut self) -> io::Result<Option<E>> {
        match self {
            Self::Memory(entries) => Ok(entries.next()),
            Self::File(file, _) => {
                let mut bytes = vec![0; E::BYTES];
                match file.read_exact(&mut bytes) {
                    Ok(()) => Ok(Some(E::read(&mut Bytes::new(&bytes)))),
                    // A file has whole entries only: it was written by this process.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sortable for u64 {
        const BYTES: usize = 8;

        fn write(&self, out: &mut Vec<u8>) {
            out.extend(self.to_le_bytes());
        }

        fn read(bytes: &mut Bytes<'_>) -> Self {
            Self::from_le_bytes(bytes.take())
        }
    }

    /// Numbers in an order that is not theirs.
    fn shuffled(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000)
    }

    fn sorter(entries_max: usize, runs_max: usize) -> Sorter<u64> {
        Sorter::new(&SortLimits { entries_max, runs_max, ..SortLimits::default() })
    }

    #[test]
    fn everything_comes_back_in_order_however_small_the_buffer() {
        let mut expected: Vec<u64> = shuffled(1_000).collect();
        expected.sort_unstable();
        for (entries_max, runs_max, written) in [(10_000, 64, 0), (1_000, 64, 1), (100, 64, 10), (7, 5, 142 + 35)] {
            let mut sorter = sorter(entries_max, runs_max);
            shuffled(1_000).for_each(|number| sorter.push(number).expect("pushed"));
            assert!(sorter.runs.len() <= runs_max && sorter.buffer.len() < entries_max);
            assert_eq!(sorter.written, written, "with {entries_max} entries in memory");
            let sorted: io::Result<Vec<u64>> = sorter.sorted().expect("sorted").collect();
            assert_eq!(sorted.expect("read"), expected);
        }
        assert_eq!(sorter(10, 2).sorted().expect("sorted").count(), 0);
    }

    #[test]
    fn files_have_no_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = SortLimits { entries_max: 10, runs_max: 4, folder: folder.path().to_owned() };
        let mut sorter = Sorter::new(&limits);
        shuffled(100).for_each(|number| sorter.push(number).expect("pushed"));
        assert!(!sorter.runs.is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error() {
        let limits = SortLimits { entries_max: 1, folder: "/no/such/folder".into(), ..SortLimits::default() };
        assert!(Sorter::new(&limits).push(1_u64).is_err());
    }
}
