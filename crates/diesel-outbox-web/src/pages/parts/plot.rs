//! Small plots, as SVG in the page.

use std::fmt::Write as _;

use maud::{Markup, html};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 48.0;

/// A line through values, the latest to the right; a gap where one is missing. `last` is the latest one as text.
pub(crate) fn line(title: &str, unit: &str, values: &[Option<f64>], last: &str) -> Markup {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let label = format!("{title} in the last hour: now {last}, at most {} {unit}", number(highest));
    html! {
        figure {
            figcaption { span { (title) } strong { (last) } }
            svg.plot viewBox="0 0 240 48" preserveAspectRatio="none" role="img" aria-label=(label) {
                line x1="0" y1="47.5" x2="240" y2="47.5" {}
                @for points in segments(values, highest) { polyline points=(points) {} }
            }
            span.quiet { @if values.iter().any(Option::is_some) { "at most " (number(highest)) " " (unit) } @else { "no figure yet" } }
        }
    }
}

/// The points of each part without a gap.
fn segments(values: &[Option<f64>], highest: f64) -> Vec<String> {
    let scale = if highest > 0.0 { (HEIGHT - 3.0) / highest } else { 0.0 };
    let step = WIDTH / (values.len().max(2) - 1) as f64;
    let mut parts = vec![String::new()];
    for (at, value) in values.iter().enumerate() {
        match (value, parts.last_mut()) {
            (Some(value), Some(part)) => {
                let (x, y) = (at as f64 * step, HEIGHT - 1.0 - value * scale);
                // A text takes whatever is written.
                let _ = write!(part, "{x:.1},{y:.1} ");
            }
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// With few digits.
pub(crate) fn number(value: f64) -> String {
    if value >= 10.0 || value == value.trunc() { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// A bar whose length is a share of the longest.
pub(crate) fn bar(count: usize, highest: usize) -> Markup {
    let width = if highest == 0 { 0.0 } else { 100.0 * count as f64 / highest as f64 };
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(format!("{width:.1}")) height="8" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_interrupted_where_a_value_is_missing() {
        let values = [Some(0.0), Some(4.0), None, Some(2.0)];
        let parts = segments(&values, 4.0);
        assert_eq!(parts, ["0.0,47.0 80.0,2.0 ", "240.0,24.5 "]);
        assert_eq!(segments(&[], 0.0), [""; 0]);
        assert_eq!(segments(&[Some(0.0)], 0.0), ["0.0,47.0 "]);
    }

    #[test]
    fn a_plot_says_in_words_what_it_shows() {
        let plot = line("Delivered", "per second", &[Some(1.5), Some(12.0)], "12/s").into_string();
        assert!(plot.contains("Delivered in the last hour: now 12/s, at most 12 per second"), "{plot}");
    }
}
