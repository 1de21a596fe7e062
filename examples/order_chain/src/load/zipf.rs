//! Few products get most orders.

use fastrand::Rng;

/// Zipf's distribution over `0..count`: the first is the most popular.
#[derive(Debug, Clone)]
pub struct Zipf {
    /// The sum of the weights up to each.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Weights of `1 / rank ^ exponent`.
    pub fn new(count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u32| f64::from(rank).powf(-exponent);
        let cumulative = (1..).take(count).map(|rank| {
            sum += weight(rank);
            sum
        });
        Self { cumulative: cumulative.collect() }
    }

    /// One of them.
    pub fn pick(&self, rng: &mut Rng) -> usize {
        let sum = self.cumulative.last().copied().unwrap_or_default();
        let at = rng.f64() * sum;
        self.cumulative.partition_point(|upto| *upto <= at).min(self.cumulative.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_picked_most() {
        let (zipf, mut rng) = (Zipf::new(8, 1.0), Rng::with_seed(7));
        let mut counts = [0_u32; 8];
        for _ in 0..10_000 {
            counts[zipf.pick(&mut rng)] += 1;
        }
        assert!(counts.is_sorted_by(|a, b| a > b), "{counts:?}");
        // 1 / (1 + 1/2 + .. + 1/8)
        assert!((3_400..3_960).contains(&counts[0]), "{counts:?}");
    }
}
