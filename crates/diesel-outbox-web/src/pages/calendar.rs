use std::time::{Duration, SystemTime};

use axum::extract::{Query, State};
use diesel_outbox::admin::BoundedCount;
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::messages::no_topic;
use super::parts::filter::{choice, given};
use super::parts::plot::bar;
use super::parts::time::{day, hour};
use crate::limits::{CALENDAR_DAYS, CALENDAR_HOURS};
use crate::state::Shared;
use crate::topics::names;
use crate::visit::Visit;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    topic: Option<String>,
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let topics = shared.topics().await?;
    let Some(topic) = given(&asked.topic).or_else(|| names(&topics).next()) else {
        return Err(no_topic());
    };
    let now = shared.reader().now().await?;
    let (hours, days) = (hours(now), days(now));
    let by_hour = shared.reader().count_due(topic, &hours).await?;
    let by_day = shared.reader().count_due(topic, &days).await?;
    let content = html! {
        form.filter method="get" action=(visit.to("/calendar")) {
            (choice("Topic", "topic", None, names(&topics).map(|name| (name, name)), Some(topic)))
            button.plain { "Show" }
        }
        p.quiet {
            "Messages outside of lanes, by when they are due: to be delivered or tried again. Times are UTC; each count stops at 10,000. "
            a href=(visit.to("/messages").with("topic", topic).with("state", "due")) { "What is due already" } "."
        }
        h2 { "By hour" }
        (counts(&hours, &by_hour, "Hour", hour))
        h2 { "By day" }
        (counts(&days, &by_day, "Day", day))
    };
    Ok(page(&visit, "Calendar", Refresh::ByEvents, content))
}

/// From now on, and then each full hour.
fn hours(now: SystemTime) -> Vec<SystemTime> {
    steps(now, HOUR, CALENDAR_HOURS)
}

fn days(now: SystemTime) -> Vec<SystemTime> {
    steps(now, DAY, CALENDAR_DAYS)
}

fn steps(now: SystemTime, step: Duration, count: u32) -> Vec<SystemTime> {
    let past = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let begun = SystemTime::UNIX_EPOCH + step * u32::try_from(past.as_secs() / step.as_secs()).unwrap_or(u32::MAX);
    std::iter::once(now).chain((1..=count).map(|number| begun + step * number)).collect()
}

fn counts(moments: &[SystemTime], counts: &[BoundedCount], what: &str, name: fn(SystemTime) -> String) -> Markup {
    let highest = counts.iter().map(|count| count.count).max().unwrap_or(0);
    html! {
        table {
            thead { tr { th { (what) } th.number { "Due" } th { "" } } }
            tbody {
                @for (from, count) in moments.iter().zip(counts) {
                    tr { td { "from " (name(*from)) } td.number { (count) } td { (bar(count.count, highest)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_now_and_then_at_full_hours_and_days() {
        let now = SystemTime::UNIX_EPOCH + 20_000 * DAY + 5 * HOUR + Duration::from_secs(90);
        let (hours, days) = (hours(now), days(now));
        assert_eq!((hours.len(), days.len()), (CALENDAR_HOURS as usize + 1, CALENDAR_DAYS as usize + 1));
        assert_eq!(
            hours[..3],
            [now, SystemTime::UNIX_EPOCH + 20_000 * DAY + 6 * HOUR, SystemTime::UNIX_EPOCH + 20_000 * DAY + 7 * HOUR]
        );
        assert_eq!(days[..2], [now, SystemTime::UNIX_EPOCH + 20_001 * DAY]);
    }
}
