//! Legs relative to the baseline of their own round.

use crate::load::{Load, RelayTo, Throughput};
use crate::report::{Figure, Target};

/// Transactions a second, for each leg in the order they ran.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    legs: Vec<(Load, f64)>,
    /// For those whose messages a relay takes.
    rows_left: Vec<(Load, f64)>,
}

impl Rounds {
    pub(crate) fn push(&mut self, load: Load, tx_per_second: f64) {
        self.legs.push((load, tx_per_second));
    }

    /// The same, with the rows that the leg's relay left at its end.
    pub(crate) fn push_leg(&mut self, load: Load, leg: &Throughput) {
        self.push(load, leg.tx_per_second);
        if load.relay_to != RelayTo::Nowhere {
            self.rows_left.push((load, leg.rows_left as f64));
        }
    }

    /// The rows that the leg's relay left at its end: an application looks fast if its relay falls behind.
    pub(crate) fn left(&self, what: &str, load: Load) -> Figure {
        let rows = self.rows_left.iter().filter(|(of, _)| *of == load).map(|(_, rows)| *rows).collect();
        Figure::new(format!("{what}, {}, rows left at the end", load.name()), "rows", rows, Target::None)
    }

    /// The leg as a share of the baseline.
    pub(crate) fn figure(&self, what: &str, load: Load, target: Target) -> Figure {
        Figure::new(format!("{what}, {}", load.name()), "", self.shares(load), target)
    }

    /// The leg in transactions a second.
    pub(crate) fn absolute(&self, what: &str, load: Load) -> Figure {
        let rates = self.legs.iter().filter(|(of, _)| *of == load).map(|(_, rate)| *rate).collect();
        Figure::new(format!("{what}, {}", load.name()), "tx/s", rates, Target::None)
    }

    /// One share for each run of the leg, relative to the mean of the baseline's runs right before and after it,
    /// because a machine's speed changes over time.
    pub(crate) fn shares(&self, load: Load) -> Vec<f64> {
        let runs = self.legs.iter().enumerate().filter(|(_, (of, _))| *of == load);
        runs.filter_map(|(at, (_, rate))| Some(rate / self.baseline_around(at)?)).collect()
    }

    /// The difference of two legs' shares, round by round.
    pub(crate) fn less(&self, what: &str, (one, other): (Load, Load), target: Target) -> Figure {
        let differences = self.shares(one).into_iter().zip(self.shares(other)).map(|(one, other)| one - other);
        Figure::new(format!("{what}, {} less {}", one.name(), other.name()), "", differences.collect(), target)
    }

    /// A leg as a share of another one, round by round.
    pub(crate) fn of(&self, what: &str, (one, other): (Load, Load), target: Target) -> Figure {
        let shares = self.shares(one).into_iter().zip(self.shares(other)).map(|(one, other)| one / other);
        Figure::new(format!("{what}, {} of {}", one.name(), other.name()), "", shares.collect(), target)
    }

    /// The baseline, `first` and the others, the rows that each left, and each of the others by `first`.
    pub(crate) fn by_first(&self, what: &str, first: Load, others: [(Load, Target); 2]) -> Vec<Figure> {
        let legs = [first, others[0].0, others[1].0];
        let mut figures = vec![self.absolute(what, Load::BASELINE)];
        figures.extend(legs.iter().map(|load| self.figure(what, *load, Target::None)));
        figures.extend(legs.iter().map(|load| self.left(what, *load)));
        figures.extend(others.iter().map(|(load, target)| self.of(what, (*load, first), *target)));
        figures
    }

    fn baseline_around(&self, at: usize) -> Option<f64> {
        let is_baseline = |leg: &&(Load, f64)| leg.0 == Load::BASELINE;
        let before = self.legs[..at].iter().rev().find(is_baseline).map(|(_, rate)| *rate);
        let after = self.legs[at..].iter().find(is_baseline).map(|(_, rate)| *rate);
        match (before, after) {
            (Some(before), Some(after)) => Some(f64::midpoint(before, after)),
            (one, other) => one.or(other),
        }
    }
}
