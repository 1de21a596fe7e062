//! Compares the speeds of several shops, in rounds.

use std::fmt;

/// The speeds of shops, by round. Of each round the ratio is taken, and of the ratios the median: a machine that becomes slower from one round
/// to the next changes no ratio.
#[derive(Debug, Clone)]
pub struct Rounds {
    names: Vec<&'static str>,
    /// Of each shop, one for each round.
    speeds: Vec<Vec<f64>>,
}

impl Rounds {
    /// Of these shops.
    pub fn of(names: &[&'static str]) -> Self {
        Self { names: names.to_vec(), speeds: vec![Vec::new(); names.len()] }
    }

    /// The shops in the order of a round: each begins in turn, so that none always comes behind the same one.
    pub fn order(&self, round: u32) -> Vec<usize> {
        let count = self.names.len();
        let first = usize::try_from(round).unwrap_or_default() % count.max(1);
        (0..count).map(|index| (first + index) % count).collect()
    }

    /// Notes the speed of a shop.
    pub fn add(&mut self, shop: usize, speed: f64) {
        self.speeds[shop].push(speed);
    }

    /// How fast one shop is, measured by another one.
    pub fn ratio(&self, shop: usize, to: usize) -> Ratio {
        let mut ratios: Vec<f64> =
            self.speeds[shop].iter().zip(&self.speeds[to]).map(|(one, other)| one / other).collect();
        ratios.sort_by(f64::total_cmp);
        Ratio { names: [self.names[shop], self.names[to]], ratios }
    }
}

/// The ratios of two shops, sorted.
#[derive(Debug, Clone)]
pub struct Ratio {
    names: [&'static str; 2],
    ratios: Vec<f64>,
}

impl Ratio {
    /// The one in the middle.
    pub fn median(&self) -> f64 {
        self.ratios.get(self.ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [shop, to] = self.names;
        write!(f, "{shop}, to {to}: {:.2}", self.median())?;
        if let (Some(least), Some(most)) = (self.ratios.first(), self.ratios.last()) {
            write!(f, " ({least:.2} to {most:.2})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_shop_and_ratios_are_of_a_round() {
        let mut rounds = Rounds::of(&["a", "b", "c"]);
        assert_eq!([0, 1, 2, 3].map(|round| rounds.order(round)[0]), [0, 1, 2, 0]);
        assert_eq!(rounds.order(1), [1, 2, 0]);
        // The machine is ten times slower in the second round.
        for (a, b) in [(100.0, 50.0), (10.0, 6.0), (100.0, 40.0)] {
            rounds.add(0, a);
            rounds.add(1, b);
        }
        assert_eq!(rounds.ratio(1, 0).to_string(), "b, to a: 0.50 (0.40 to 0.60)");
    }
}
