//! An SVG bar chart of figures of one unit, each with its spread and target.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use xtask::bench_results::{Figure, RowResult, Spread, short};

const WIDTH: f64 = 960.0;
/// Where the bars begin and end; labels are to the left, medians to the right.
const LEFT: f64 = 440.0;
const RIGHT: f64 = 860.0;
const LINE: f64 = 26.0;
const HEAD: f64 = 40.0;
/// If the ratio of the largest to the smallest figure exceeds this, the axis is logarithmic.
const LINEAR_MAX: f64 = 50.0;

/// A file for docs/internals/performance.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) file: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// One plot for each unit in which the row has at least two figures: a single bar says nothing.
pub(super) fn plots(result: &RowResult) -> Vec<Plot> {
    let mut by_unit: BTreeMap<&str, Vec<(&Figure, Spread)>> = BTreeMap::new();
    for figure in &result.figures {
        if let Some(spread) = figure.spread {
            by_unit.entry(&figure.unit).or_default().push((figure, spread));
        }
    }
    let several = by_unit.into_iter().filter(|(_, figures)| figures.len() > 1);
    several.map(|(unit, figures)| plot(&result.row, unit, &figures)).collect()
}

fn plot(row: &str, unit: &str, figures: &[(&Figure, Spread)]) -> Plot {
    let named = if unit.is_empty() { "ratio" } else { unit };
    let slug: String = named.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let axis = Axis::over(figures);
    let title = format!("{row}, {named}{}", if axis.is_logarithmic { ", logarithmic" } else { "" });
    Plot { file: format!("{row}-{}.svg", slug.trim_matches('-')), svg: drawn(&title, &axis, figures), title }
}

/// Maps a figure to its position.
struct Axis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Axis {
    fn over(figures: &[(&Figure, Spread)]) -> Self {
        let targets = figures.iter().filter_map(|(figure, _)| figure.target.value());
        let ends: Vec<f64> = figures.iter().flat_map(|(_, spread)| [spread.min, spread.max]).chain(targets).collect();
        let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > 0.0 && high / low > LINEAR_MAX {
            return Self { low: (low / 2.0).log10(), high: high.log10(), is_logarithmic: true };
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        Self { low, high: if high > low { high } else { low + 1.0 }, is_logarithmic: false }
    }

    fn x(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic { value.log10() } else { value };
        LEFT + (value - self.low) / (self.high - self.low) * (RIGHT - LEFT)
    }

    fn zero(&self) -> f64 {
        if self.is_logarithmic { LEFT } else { self.x(0.0) }
    }
}

fn drawn(title: &str, axis: &Axis, figures: &[(&Figure, Spread)]) -> String {
    let height = HEAD + LINE * figures.len() as f64 + 10.0;
    let mut svg = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"24\" font-weight=\"bold\">{}</text>",
        escaped(title),
    );
    for (number, (figure, spread)) in figures.iter().enumerate() {
        bar(&mut svg, HEAD + LINE * number as f64, axis, figure, *spread);
    }
    svg + "</svg>\n"
}

/// The bar of the median, a line from minimum to maximum, and a dashed line at the target.
fn bar(svg: &mut String, top: f64, axis: &Axis, figure: &Figure, spread: Spread) {
    let (from, to) = (axis.zero().min(axis.x(spread.median)), axis.zero().max(axis.x(spread.median)));
    let (colour, middle) = (if figure.reached == Some(false) { "#c96a50" } else { "#5b8db8" }, top + LINE / 2.0);
    let (label, median) = (escaped(&figure.what), short(spread.median));
    let _ = writeln!(
        svg,
        "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" fill=\"{colour}\" fill-opacity=\"0.75\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n<text x=\"{:.1}\" y=\"{:.1}\">{median}</text>",
        top + 6.0,
        to - from,
        LEFT - 8.0,
        middle + 4.0,
        RIGHT + 8.0,
        middle + 4.0,
    );
    let mut line = |x1: f64, y1: f64, x2: f64, y2: f64, look: &str| {
        let _ =
            writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#333\" {look}/>");
    };
    line(axis.x(spread.min), middle, axis.x(spread.max), middle, "stroke-width=\"2\"");
    if let Some(target) = figure.target.value() {
        line(axis.x(target), top + 2.0, axis.x(target), top + LINE - 2.0, "stroke-dasharray=\"3 2\"");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use xtask::bench_results::{Machine, Origin, Target};

    use super::*;

    fn of(figures: Vec<Figure>) -> RowResult {
        let machine = Machine { processors: 2, model: String::new(), memory_gib: 1.0, kernel: String::new() };
        let (row, origin) = ("row".to_owned(), Origin::default());
        RowResult { row, figures, others: None, seconds: 1.0, origin, machine, legs: Vec::new() }
    }

    #[test]
    fn a_plot_holds_every_figure_of_its_unit() {
        let short = Figure::new("a & b < c", "", vec![0.5], Target::AtLeast(0.9));
        let loss = Figure::new("loss", "", vec![-0.1, 0.1], Target::None);
        let result = of(vec![short, Figure::new("alone", "us", vec![1.0], Target::None), loss]);
        let [plot] = plots(&result).try_into().expect("one unit has two figures");
        assert_eq!((plot.file.as_str(), plot.title.as_str()), ("row-ratio.svg", "row, ratio"));
        assert_eq!(plot.svg.matches("<rect x=").count(), 2, "{}", plot.svg);
        assert!(plot.svg.contains("a &amp; b &lt; c") && plot.svg.contains("#c96a50"), "{}", plot.svg);
        assert_eq!(plot.svg.matches("stroke-dasharray").count(), 1, "{}", plot.svg);
    }

    #[test]
    fn far_apart_figures_have_a_logarithmic_axis_within_the_plot() {
        let [near, far] = [300.0, 300_000.0].map(|value| Figure::new("x", "us", vec![value], Target::None));
        let result = of(vec![near.clone(), far.clone()]);
        let axis = Axis::over(&[(&near, near.spread.expect("a sample")), (&far, far.spread.expect("a sample"))]);
        assert!(axis.is_logarithmic && axis.x(300.0) > LEFT && (axis.x(300_000.0) - RIGHT).abs() < 1e-6);
        assert_eq!(plots(&result)[0].title, "row, us, logarithmic");
    }
}
