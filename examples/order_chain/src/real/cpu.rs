//! Who uses the processors: a measurement on one machine says little without it.

use std::collections::BTreeMap;
use std::fs;

use rustix::param::clock_ticks_per_second;

/// Seconds of processor time, by name.
pub(super) type Used = BTreeMap<String, f64>;

/// What a process and all below it have used.
#[derive(Debug, Clone, Copy)]
struct Stat {
    parent: u32,
    ticks: u64,
}

/// What these processes have used so far, each with all that it has started. Several of one name are one.
pub(super) fn used(roots: &[(String, u32)]) -> Used {
    let all = read();
    let mut used = Used::new();
    for (name, root) in roots {
        *used.entry(name.clone()).or_default() += seconds(below(&all, *root));
    }
    used
}

/// What this process alone has used so far.
pub(super) fn used_here() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    seconds(parse(&text, false).map_or(0, |stat| stat.ticks))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

fn read() -> BTreeMap<u32, Stat> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    // One that ends meanwhile is in what its parent has waited for.
    ids.filter_map(|id: u32| Some((id, parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?, true)?))).collect()
}

/// A line of `/proc/<id>/stat`. The name in brackets may contain anything.
fn parse(line: &str, with_ended: bool) -> Option<Stat> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    // From the state on: it is the third field, the parent the fourth, utime, stime, cutime and cstime the 14th to 17th.
    let ticks = fields.get(11..if with_ended { 15 } else { 13 })?.iter().map(|field| field.parse::<u64>().ok());
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks: ticks.sum::<Option<u64>>()? })
}

fn below(all: &BTreeMap<u32, Stat>, root: u32) -> u64 {
    let own = all.get(&root).map_or(0, |stat| stat.ticks);
    let children = all.iter().filter(|(id, stat)| stat.parent == root && **id != root);
    own + children.map(|(id, _)| below(all, *id)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_counted_with_all_below_it() {
        let line = "7 (a) (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 11 2 300 40 20 0 1 0 5 1000 9";
        let (with, without) = (parse(line, true).expect("a line"), parse(line, false).expect("a line"));
        assert_eq!((with.parent, with.ticks, without.ticks), (1, 353, 13));
        let stat = |parent, ticks| Stat { parent, ticks };
        let all = BTreeMap::from([(1, stat(0, 1)), (7, stat(1, 10)), (8, stat(7, 100)), (9, stat(1, 1_000))]);
        assert_eq!(below(&all, 7), 110);
        assert_eq!(below(&all, 5), 0);
        assert!(used_here() >= 0.0);
    }
}
