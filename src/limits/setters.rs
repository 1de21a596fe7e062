//! What each field of [`Limits`] has besides its default.

use std::time::Duration;

use super::Limits;

/// Calls a macro with the names of all limits.
macro_rules! for_each_limit {
    ($call:ident) => {
        $call! {
            durations: lease_duration, lease_margin_duration, claim_window_duration, claim_lease_duration, confirm_linger_max,
                settle_linger_duration, poll_interval, watermark_slack_duration, extend_interval, probe_interval_min,
                probe_interval_max, topic_back_off_duration, lane_lease_duration, lane_yield_duration, lane_sleep_duration,
                prune_interval, backlog_interval;
            counts: claim_rows_max, claim_bytes_max, claim_workers, queue_rows_max, confirm_rows_max, in_flight_max,
                in_flight_bytes_max, settle_rows_max, settle_workers, backlog_count_max
        }
    };
}

pub(crate) use for_each_limit;

macro_rules! setters {
    (durations: $($duration:ident),*; counts: $($count:ident),*) => {
        impl Limits {
            $(
                #[doc = concat!("Sets [`", stringify!($duration), "`](#structfield.", stringify!($duration), ").")]
                #[must_use]
                pub const fn $duration(self, $duration: Duration) -> Self {
                    Self { $duration, ..self }
                }
            )*
            $(
                #[doc = concat!("Sets [`", stringify!($count), "`](#structfield.", stringify!($count), ").")]
                #[must_use]
                pub const fn $count(self, $count: usize) -> Self {
                    Self { $count, ..self }
                }
            )*
        }

        // If a field has no setter, this does not compile.
        const _: fn(Limits) = |Limits { $($duration: _,)* $($count: _,)* }| {};
    };
}

for_each_limit!(setters);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setter_sets_its_field_and_no_other() {
        let default = Limits::default();
        let mut expected = default.clone();
        (expected.poll_interval, expected.claim_workers) = (Duration::from_millis(7), 7);
        assert_eq!(default.clone().poll_interval(Duration::from_millis(7)).claim_workers(7), expected);
        macro_rules! set_each {
            (durations: $($duration:ident),*; counts: $($count:ident),*) => {
                $(
                    let set = default.clone().$duration(Duration::from_nanos(7));
                    assert_eq!(set.$duration, Duration::from_nanos(7));
                    assert_eq!(Limits { $duration: default.$duration, ..set }, default);
                )*
                $(
                    let set = default.clone().$count(7);
                    assert_eq!(set.$count, 7);
                    assert_eq!(Limits { $count: default.$count, ..set }, default);
                )*
            };
        }
        for_each_limit!(set_each);
    }
}
