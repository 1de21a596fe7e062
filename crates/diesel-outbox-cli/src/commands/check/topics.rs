use diesel_outbox::admin::{AdminError, TopicStatus};

use super::CheckArgs;
use super::finding::{Findings, Verdict};
use crate::output::{age, instant, plural};
use crate::session::Session;

/// Blocked keys that are looked for: that there are any is what matters.
const BLOCKED_KEYS_COUNTED: usize = 50;

/// Looks at each topic.
pub(super) async fn check(args: &CheckArgs, session: &Session, findings: &mut Findings) {
    let topics = match session.admin.topics().await {
        Ok(topics) => topics,
        Err(error) => return findings.note(Verdict::Unknown, "topics", error.to_string()),
    };
    if topics.is_empty() {
        findings.note(Verdict::Fine, "topics", "the tables hold nothing of any topic");
    }
    for topic in &topics {
        check_backlog(args, topic, session, findings);
        if topic.lanes.is_some() {
            let checked = check_lanes(topic, session, findings).await;
            if let Err(error) = checked {
                findings.of_topic(Verdict::Unknown, "lanes", &topic.topic, error.to_string());
            }
        }
    }
}

fn check_backlog(args: &CheckArgs, topic: &TopicStatus, session: &Session, findings: &mut Findings) {
    let TopicStatus { topic: name, live, due, dead, overdue_by, paused_since, is_configured, .. } = topic;
    match paused_since {
        Some(since) => {
            let text = format!("paused since {}, {live} live: `resume` when the cause is fixed", instant(*since));
            findings.of_topic(Verdict::Warning, "pause", name, text);
        }
        None if due.count > 0 && *overdue_by > args.overdue_max => {
            let waiting = plural(due.count, due.more, "message");
            let text = format!("{waiting} due, the oldest for {}: no relay takes them", age(*overdue_by));
            findings.of_topic(Verdict::Wrong, "backlog", name, text);
        }
        None => findings.of_topic(Verdict::Fine, "backlog", name, format!("{live} live, {due} due")),
    }
    if dead.count > args.dead_max {
        let letters = plural(dead.count, dead.more, "dead letter");
        let text = format!("{letters}: `dead list --topic {name}` shows why");
        findings.of_topic(Verdict::Wrong, "dead letters", name, text);
    }
    if session.is_configured && !is_configured && live.count > 0 {
        let messages = plural(live.count, live.more, "live message");
        let text =
            format!("{messages} of a topic that this application does not configure: has another one a relay for it?");
        findings.of_topic(Verdict::Warning, "configuration", name, text);
    }
}

async fn check_lanes(topic: &TopicStatus, session: &Session, findings: &mut Findings) -> Result<(), AdminError> {
    let name = &topic.topic;
    let lanes = session.admin.lanes(name).await?;
    let without_owner = lanes.iter().filter(|lane| lane.owner.is_none()).count();
    let (of, relays) = (lanes.len(), lanes.first().map_or(0, |lane| lane.nodes));
    let verdict = match (without_owner, topic.live.count) {
        (0, _) => Verdict::Fine,
        (_, 0) => Verdict::Warning,
        _ => Verdict::Wrong,
    };
    findings.of_topic(
        verdict,
        "lanes",
        name,
        format!(
            "{without_owner} of {} without an owner, {} alive",
            plural(of, false, "lane"),
            plural(relays, false, "relay")
        ),
    );
    let blocked = session.admin.blocked_keys(name, None, BLOCKED_KEYS_COUNTED).await?;
    match (blocked.items.len(), blocked.next.is_some()) {
        (0, false) => findings.of_topic(Verdict::Fine, "blocked keys", name, "none"),
        // So many messages were checked that the rest may have some.
        (0, true) => findings.of_topic(
            Verdict::Unknown,
            "blocked keys",
            name,
            format!("too many messages: `keys {name}` goes on"),
        ),
        (count, more) => {
            let keys = plural(count, more, "key");
            let text = format!("{keys} behind a failed message: `keys {name}` shows why");
            findings.of_topic(Verdict::Wrong, "blocked keys", name, text);
        }
    }
    Ok(())
}
