//! Statements that read several lanes or topics in a database without LATERAL. Each number of scans has its own text.

/// How many scans a text has. Smaller batches are filled up with scans that find nothing.
pub(crate) const SCAN_COUNTS: [usize; 4] = [1, 4, 16, 64];

/// The text that scans `count` lanes or topics: `one` for each, with its number in place of `{scan}`.
pub(crate) fn union_of_scans(one: &str, count: usize) -> String {
    let scans: Vec<String> = (0..count).map(|scan| one.replace("{scan}", &scan.to_string())).collect();
    scans.join(" UNION ALL ")
}

/// Batches of scans: the index of the first one, the batch, and the index of the text for it.
pub(crate) fn scan_batches<T>(scans: &[T]) -> impl Iterator<Item = (usize, &[T], usize)> {
    let largest = SCAN_COUNTS.iter().copied().max().unwrap_or(1);
    scans.chunks(largest).enumerate().map(move |(chunk, scans)| {
        let text = SCAN_COUNTS.iter().position(|count| scans.len() <= *count).unwrap_or(0);
        (chunk * largest, scans, text)
    })
}
