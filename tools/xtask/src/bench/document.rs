//! The generated part of docs/internals/performance.md: a block for each row, between markers. Text outside is not touched.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use xtask::bench_results::{Figure, RowResult, Spread, Target, short};

use super::plot;

const BEGIN: &str = "<!-- written by `cargo xtask bench --report`: begin -->\n";
const END: &str = "<!-- written by `cargo xtask bench --report`: end -->";
const ROW: &str = "<!-- row ";
/// Begins the line that says what a block is not.
const NOT: &str = "**Not ";

/// `text` with new blocks for the measured rows, in the order of `rows` (name and description). The block of a row that was not
/// measured stays, with a note that it is older; that of a row that no longer exists is removed. Each names the commit and the day
/// of its measurement. If it is not a whole run of `commit`, it says so.
pub(super) fn rewritten(
    text: &str,
    rows: &[(String, String)],
    measured: &[RowResult],
    commit: Option<&str>,
) -> Result<String> {
    let (head, rest) = text.split_once(BEGIN).with_context(|| format!("the page has no {BEGIN}"))?;
    let (old, tail) = rest.split_once(END).with_context(|| format!("the page has no {END}"))?;
    let old: BTreeMap<&str, &str> = old.split(ROW).skip(1).filter_map(|block| block.split_once(" -->\n")).collect();
    let mut blocks = String::new();
    for (name, about) in rows {
        let fresh = measured.iter().find(|result| result.row == *name).map(|result| block(about, result, commit));
        if let Some(block) = fresh.or_else(|| old.get(name.as_str()).map(|block| kept(block))) {
            write!(blocks, "{ROW}{name} -->\n{block}")?;
        }
    }
    Ok(format!("{head}{BEGIN}{blocks}{END}{tail}"))
}

/// The block of a row that was not measured. One that already has such a note stays as it is.
fn kept(block: &str) -> String {
    if block.lines().any(|line| line.starts_with(NOT)) {
        return block.to_owned();
    }
    format!("{}\n\n{NOT}measured with this version.**\n\n", block.trim_end())
}

fn block(about: &str, result: &RowResult, commit: Option<&str>) -> String {
    let mut text =
        format!("\n### {about}\n\n| what | measured: median (least to most) | wanted | |\n|---|---|---|---|\n");
    let mut line = |line: &str| text += &format!("{line}\n");
    result.figures.iter().map(table_line).for_each(|figure| line(&figure));
    for plot in plot::plots(result) {
        line(&format!("\n![{}](performance/{})", plot.title, plot.file));
    }
    let machine = &result.machine;
    let others = result.others.map_or_else(String::new, |others| {
        let doubt = if result.is_noisy() { ", which makes these figures doubtful" } else { "" };
        format!(
            "; others used {:.1} % of them, {:.1} % in the worst leg{doubt}",
            others.median * 100.0,
            others.max * 100.0
        )
    });
    let minutes = result.seconds / 60.0;
    line(&format!(
        "\n{} processors ({}), {:.0} GiB, Linux {}{others}. `--only {}`, {minutes:.1} minutes, measured {}.\n",
        machine.processors,
        machine.model,
        machine.memory_gib,
        machine.kernel,
        result.row,
        result.origin.when(),
    ));
    let doubts = result.origin.doubts(commit);
    if !doubts.is_empty() {
        line(&format!("{NOT}a whole run of this version: {doubts}.**\n"));
    }
    text
}

fn table_line(figure: &Figure) -> String {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
    let measured = figure.spread.map_or_else(
        || "nothing".to_owned(),
        |Spread { median, min, max }| match figure.samples.len() {
            1 => format!("{}{unit} (once)", short(median)),
            _ => format!("{}{unit} ({} to {})", short(median), short(min), short(max)),
        },
    );
    let wanted = match figure.target {
        Target::AtLeast(target) => format!("at least {}", short(target)),
        Target::AtMost(target) => format!("at most {}", short(target)),
        Target::None => String::new(),
    };
    let verdict = if figure.reached == Some(false) { "short" } else { "" };
    format!("| {} | {measured} | {wanted} | {verdict} |", figure.what)
}

#[cfg(test)]
mod tests {
    use xtask::bench_results::Origin;

    use super::*;

    /// A result as a bench's program writes it.
    const DRAIN: &str = r#"{
      "row": "drain", "seconds": 120.0,
      "origin": { "version": "0.1.0", "commit": "abc1234", "date": "2026-02-03",
        "seconds": null, "rounds": null, "messages": null },
      "legs": [{ "leg": "drain" }],
      "others": { "median": 0.011, "min": 0.0, "max": 0.08 },
      "machine": { "processors": 2, "model": "a model", "memory_gib": 23.4, "kernel": "6.1" },
      "figures": [
        { "what": "bare rdkafka", "unit": "msg/s", "samples": [300000.0],
          "spread": { "median": 300000.0, "min": 300000.0, "max": 300000.0 }, "target": "none", "reached": null },
        { "what": "drain", "unit": "msg/s", "samples": [94000.0, 85000.0, 95000.0],
          "spread": { "median": 94000.0, "min": 85000.0, "max": 95000.0 }, "target": "none", "reached": null },
        { "what": "share", "unit": "", "samples": [0.25],
          "spread": { "median": 0.25, "min": 0.25, "max": 0.25 }, "target": { "at_least": 0.3 }, "reached": false }
      ] }"#;

    const HERE: Option<&str> = Some("abc1234");

    fn rows() -> Vec<(String, String)> {
        ["business", "drain", "idle"].map(|name| (name.to_owned(), format!("About {name}"))).to_vec()
    }

    fn page(blocks: &str) -> String {
        format!("by hand\n{BEGIN}{blocks}{END}\nby hand, too\n")
    }

    #[test]
    fn a_measured_row_is_rewritten_and_everything_else_stays() {
        let before = page(&format!("{ROW}idle -->\nold idle\n{ROW}drain -->\nold drain\n{ROW}gone -->\nold\n"));
        let drain: RowResult = serde_json::from_str(DRAIN).expect("a result");
        let after = rewritten(&before, &rows(), std::slice::from_ref(&drain), HERE).expect("a page with its marks");
        assert!(after.starts_with("by hand\n") && after.ends_with("\nby hand, too\n"), "{after}");
        assert!(after.contains("| drain | 94,000 msg/s (85,000 to 95,000) |  |  |\n"), "{after}");
        assert!(after.contains("| bare rdkafka | 300,000 msg/s (once) |  |  |\n"), "{after}");
        assert!(after.contains("| share | 0.250 (once) | at least 0.300 | short |\n"), "{after}");
        assert!(after.contains("1.1 % of them, 8.0 % in the worst leg, which makes these figures doubtful"), "{after}");
        assert!(after.contains("(performance/drain-msg-s.svg)"), "{after}");
        assert!(!after.contains("old drain") && !after.contains("gone"), "{after}");
        let (drain_at, idle_at) = (after.find("About drain"), after.find("old idle"));
        assert!(drain_at.is_some() && drain_at < idle_at, "rows stand in the order of the table: {after}");
        assert!(after.contains("2.0 minutes, measured at commit abc1234 on 2026-02-03.\n"), "{after}");
        assert!(!after.contains("Not a whole run"), "{after}");
        let again = rewritten(&after, &rows(), std::slice::from_ref(&drain), HERE).expect("its own page");
        assert_eq!(again, after, "a second time changes nothing");

        let elsewhere = rewritten(&before, &rows(), &[drain], Some("1234abc")).expect("a page with its marks");
        assert!(elsewhere.contains("**Not a whole run of this version: of commit abc1234.**\n"), "{elsewhere}");
    }

    #[test]
    fn a_result_that_does_not_say_when_has_a_block_that_says_so() {
        let mut drain: RowResult = serde_json::from_str(DRAIN).expect("a result");
        drain.origin = Origin::default();
        let after = rewritten(&page(""), &rows(), &[drain], HERE).expect("a page with its marks");
        assert!(after.contains("measured at an unknown commit on an unknown day.\n"), "{after}");
        assert!(after.contains("**Not a whole run of this version: of an unknown commit.**\n"), "{after}");
    }

    #[test]
    fn a_block_that_was_not_measured_says_so_once() {
        let before = page(&format!("{ROW}drain -->\nold drain\n\n{ROW}idle -->\nold idle\n\n**Not a whole run.**\n\n"));
        let after = rewritten(&before, &rows(), &[], HERE).expect("a page with its marks");
        let drain = format!("{ROW}drain -->\nold drain\n\n**Not measured with this version.**\n\n");
        assert_eq!(after, page(&format!("{drain}{ROW}idle -->\nold idle\n\n**Not a whole run.**\n\n")));
        let again = rewritten(&after, &rows(), &[], HERE).expect("its own page");
        assert_eq!(again, after, "a second time changes nothing");
    }

    #[test]
    fn a_page_without_marks_is_left_alone() {
        assert!(rewritten("by hand", &rows(), &[], HERE).is_err());
        assert!(rewritten(BEGIN, &rows(), &[], HERE).is_err());
    }
}
