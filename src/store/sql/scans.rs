//! Statements that look at several lanes or topics in a database without LATERAL. Each number of them is a text of its own.

/// How many scans a text has. Smaller groups are filled up with scans that find nothing.
pub(crate) const SCAN_COUNTS: [usize; 4] = [1, 4, 16, 64];

/// The text that scans `count` lanes or topics: `one` for each, with its number in place of `{scan}`.
pub(crate) fn union_of_scans(one: &str, count: usize) -> String {
    let scans: Vec<String> = (0..count).map(|scan| one.replace("{scan}", &scan.to_string())).collect();
    scans.join(" UNION ALL ")
}

/// Groups of scans: the number of the first one, the group, and the index of the text that takes it.
pub(crate) fn scan_batches<T>(scans: &[T]) -> impl Iterator<Item = (usize, &[T], usize)> {
    let largest = SCAN_COUNTS.iter().copied().max().unwrap_or(1);
    scans.chunks(largest).enumerate().map(move |(group, scans)| {
        let text = SCAN_COUNTS.iter().position(|count| scans.len() <= *count).unwrap_or(0);
        (group * largest, scans, text)
    })
}
