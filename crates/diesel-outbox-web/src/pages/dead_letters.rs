use std::time::SystemTime;

use axum::extract::{Query, State};
use diesel_outbox::admin::{BoundedCount, Cursor, DeadLetter, DeadLetterCount, DeadLetterFilter, Page};
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::filter::{choice, given, text, time};
use super::parts::time::{instant, parse};
use super::parts::{cut, key, message_link, next};
use crate::access::Right;
use crate::failure::Failure;
use crate::limits::{GROUPED_MAX, PAGE_ROWS};
use crate::state::Shared;
use crate::topics::{KnownTopic, names};
use crate::visit::{Link, Visit};

/// A filter, as it is in a query and in hidden fields.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Asked {
    topic: Option<String>,
    reason_word: Option<String>,
    class: Option<String>,
    kind: Option<String>,
    key: Option<String>,
    from: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl Asked {
    pub(crate) fn filter(&self) -> Result<DeadLetterFilter, Failure> {
        let mut filter = DeadLetterFilter::new();
        if let Some(topic) = given(&self.topic) {
            filter = filter.topic(topic);
        }
        if let Some(word) = given(&self.reason_word) {
            filter = filter.reason(word);
        }
        if let Some(class) = given(&self.class) {
            filter = filter.class(class);
        }
        if let Some(kind) = given(&self.kind) {
            filter = filter.kind(kind);
        }
        if let Some(key) = given(&self.key) {
            filter = filter.key(key);
        }
        let time = |text: &str| {
            parse(text).ok_or_else(|| Failure::bad(format!("{text:?} is no time: write 2027-01-31T14:30.")))
        };
        if let Some(from) = given(&self.from) {
            filter = filter.dead_from(time(from)?);
        }
        if let Some(before) = given(&self.before) {
            filter = filter.dead_before(time(before)?);
        }
        Ok(filter)
    }

    /// The end of the period, if there is one.
    pub(crate) fn before(&self) -> Option<SystemTime> {
        given(&self.before).and_then(parse)
    }

    /// The conditions by their names.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        let fields = [
            ("topic", &self.topic),
            ("reason_word", &self.reason_word),
            ("class", &self.class),
            ("kind", &self.kind),
            ("key", &self.key),
            ("from", &self.from),
            ("before", &self.before),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, given(value)?))).collect()
    }

    fn link(&self, visit: &Visit, route: &str) -> Link {
        self.fields().into_iter().fold(visit.to(route), |link, (name, value)| link.with(name, value))
    }

    /// The conditions for people.
    pub(crate) fn in_words(&self) -> String {
        let fields: Vec<String> =
            self.fields().iter().map(|(name, value)| format!("{} {value}", name.replace("_word", ""))).collect();
        if fields.is_empty() { "every dead letter of every topic".to_owned() } else { fields.join(", ") }
    }
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let filter = asked.filter()?;
    let after = given(&asked.after).map(Cursor::from);
    let (admin, topics) = (shared.reader(), shared.topics().await?);
    let (total, groups) = admin.group_dead_letters(&filter, GROUPED_MAX).await?;
    let found = admin.dead_letters(&filter, after.as_ref(), PAGE_ROWS).await?;
    let now = admin.now().await?;
    let more = found.next.as_ref().map(|next| asked.link(&visit, "/dead-letters").with("after", next.to_string()));
    let content = html! {
        (form(&visit, &topics, &asked))
        @if total.count == 0 && !total.more { p.quiet { "Nothing matches: there is no dead letter of " (asked.in_words()) "." } }
        @else {
            h2 { (total) " by topic, reason and class of the last failure" }
            (groups_table(&visit, &asked, &groups))
            (bulk_acts(&visit, &asked, total))
            h2 { "One by one" }
            (table(&visit, &found, now, more.is_some()))
            (next(more))
        }
    };
    Ok(page(&visit, "Dead letters", Refresh::ByEvents, content))
}

fn form(visit: &Visit, topics: &[KnownTopic], asked: &Asked) -> Markup {
    let topics = names(topics).map(|name| (name, name));
    let reasons = [("refused", "refused"), ("attempts", "attempts"), ("poisoned", "poisoned")];
    html! {
        form.filter method="get" action=(visit.to("/dead-letters")) {
            (choice("Topic", "topic", Some("all"), topics, given(&asked.topic)))
            (choice("Reason", "reason_word", Some("any"), reasons, given(&asked.reason_word)))
            (text("Class", "class", given(&asked.class)))
            (text("Kind", "kind", given(&asked.kind)))
            (text("Key", "key", given(&asked.key)))
            (time("Dead from", "from", given(&asked.from)))
            (time("Dead before", "before", given(&asked.before)))
            button.plain { "Search" }
        }
    }
}

fn groups_table(visit: &Visit, asked: &Asked, groups: &[DeadLetterCount]) -> Markup {
    let narrowed = |group: &DeadLetterCount| {
        let asked = Asked {
            topic: Some(group.topic.to_string()),
            reason_word: Some(group.reason.to_string()),
            class: group.class.clone(),
            ..asked.clone()
        };
        asked.link(visit, "/dead-letters")
    };
    html! {
        table.stack {
            thead { tr { th { "Topic" } th { "Reason" } th { "Class" } th.number { "Dead letters" } } }
            tbody {
                @for group in groups {
                    tr {
                        td data-label="Topic" { (group.topic) }
                        td data-label="Reason" { (group.reason.as_str()) }
                        td data-label="Class" { @if let Some(class) = &group.class { (class) } @else { span.none { "no failure noted" } } }
                        td.number data-label="Dead letters" { a href=(narrowed(group)) { (group.count) } }
                    }
                }
            }
        }
    }
}

/// Links to the previews.
fn bulk_acts(visit: &Visit, asked: &Asked, total: BoundedCount) -> Markup {
    let acts = [
        ("redrive", format!("Redrive all {total} .."), Right::Redrive),
        ("canary", format!("Redrive {total}, a few first .."), Right::Redrive),
        ("purge", format!("Delete all {total} .."), Right::Purge),
    ];
    html! {
        p.acts {
            @for (act, name, _) in acts.iter().filter(|(_, _, right)| visit.may(*right)) {
                a href=(asked.link(visit, "/dead-letters/preview").with("act", act)) { (name) } " "
            }
        }
    }
}

fn table(visit: &Visit, found: &Page<DeadLetter>, now: SystemTime, has_more: bool) -> Markup {
    html! {
        @if found.items.is_empty() && has_more { p.quiet { "None on this page; there are more rows to look through." } }
        table.stack {
            thead { tr { th { "Message" } th { "Topic" } th { "Key" } th { "Kind" } th { "Died" } th { "Reason" } } }
            tbody {
                @for letter in &found.items {
                    tr {
                        td data-label="Message" { (message_link(visit, letter.message_id, None)) }
                        td data-label="Topic" { (letter.topic) }
                        td data-label="Key" { (key(letter.key.as_deref())) }
                        td data-label="Kind" { (letter.kind) }
                        td data-label="Died" { (instant(letter.dead_at, now)) }
                        td.mono data-label="Reason" { (cut(&letter.reason)) }
                    }
                }
            }
        }
    }
}
