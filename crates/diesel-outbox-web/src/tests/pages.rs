//! What the pages show.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel_outbox::Message;

use super::site::{AT, SECRET, Site, on_each};

/// The href of the link to the next page, without the prefix.
fn next_page(body: &str) -> Option<String> {
    let link = body.split("rel=\"next\" href=\"").nth(1)?.split('"').next()?;
    Some(link.replace("&amp;", "&").strip_prefix(AT)?.to_owned())
}

#[tokio::test]
async fn overview_and_topics_show_what_waits() {
    on_each(async |site| {
        site.live("orders", "1").await;
        site.dead("orders", "2", "refused: no").await;
        site.admin.pause("invoices").await.expect("pause");
        let overview = site.get("/overview").await;
        assert_eq!(overview.status, 200, "{}", overview.body);
        assert!(overview.body.contains("The topic <code>invoices</code> is paused"), "{}", overview.body);
        assert!(overview.body.contains("<svg class=\"plot\"") && overview.body.contains("aria-current=\"page\""));
        let topics = site.get("/topics").await.body;
        let row = topics.split("<tr>").find(|row| row.contains("topic=orders")).expect("a row of the topic");
        assert!(row.contains("data-label=\"Live\">1<") && row.contains(">Pause</summary>"), "{row}");
        let row = topics.split("<tr>").find(|row| row.contains("topic=invoices")).expect("a row of the topic");
        assert!(row.contains(">paused</span> since") && row.contains(">Resume</summary>"), "{row}");
        assert!(topics.contains("/lanes?topic=payments"), "{topics}");
    })
    .await;
}

#[tokio::test]
async fn live_messages_come_in_pages_and_by_condition() {
    on_each(async |site| {
        let mut expected = BTreeSet::new();
        for key in 0..120 {
            expected.insert(site.live("orders", &key.to_string()).await.to_string());
        }
        let delayed = site.delayed("later").await.to_string();
        let (mut seen, mut path) = (Vec::new(), Some("/messages?topic=orders&state=due".to_owned()));
        while let Some(asked) = path {
            let body = site.get(&asked).await.body;
            let ids = body.split("/message?id=").skip(1).map(|rest| rest[..36].to_owned());
            seen.extend(ids);
            path = next_page(&body);
        }
        assert_eq!(seen.len(), expected.len(), "each is on one page");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
        let by_state = site.get("/messages?topic=orders&state=delayed").await.body;
        assert!(by_state.contains(&delayed) && by_state.matches("/message?id=").count() == 1, "{by_state}");
        let by_key = site.get("/messages?topic=orders&key=7").await.body;
        assert_eq!(by_key.matches("/message?id=").count(), 1, "{by_key}");
        let by_header = site.get(&format!("/messages?topic=orders&header=token&value={SECRET}&key=7")).await.body;
        assert_eq!(by_header.matches("/message?id=").count(), 1, "{by_header}");
        assert!(site.get("/messages?topic=orders&key=none").await.body.contains("Nothing matches"));
        assert_eq!(site.get("/messages?topic=orders&state=asleep").await.status, 400);
        assert_eq!(site.get("/messages?topic=orders&after=x").await.status, 400);
        let unknown = site.get("/messages?topic=none").await;
        assert!(
            unknown.status == 404 && unknown.body.contains("invoices"),
            "it names the known ones: {}",
            unknown.body
        );
    })
    .await;
}

#[tokio::test]
async fn the_calendar_shows_what_is_due_when() {
    on_each(async |site| {
        site.delayed("1").await;
        site.delayed("2").await;
        let calendar = site.get("/calendar?topic=orders").await.body;
        // In two hours: in one of the hours, and in one of the days.
        assert_eq!(calendar.matches("<td class=\"number\">2</td>").count(), 2, "{calendar}");
    })
    .await;
}

#[tokio::test]
async fn a_message_is_shown_wherever_it_is() {
    on_each(async |site| {
        let dead = site.dead("orders", "1", "attempts: amount is negative").await;
        let page = site.get(&format!("/message?id={dead}")).await.body;
        for shown in [
            "Enqueued",
            "Failed",
            "amount is negative",
            "Dead-lettered",
            SECRET,
            ">Redrive</summary>",
            "Edit and redrive",
        ] {
            assert!(page.contains(shown), "{shown}: {page}");
        }
        let sent = site.sent("2").await;
        let page = site.get(&format!("/message?id={sent}")).await.body;
        assert!(page.contains("Acknowledged by the broker") && page.contains("has not confirmed"), "{page}");
        let delayed = site.delayed("3").await;
        let row = site.admin.live_message(delayed).await.expect("a live message").id;
        for path in [
            format!("/message?id={delayed}"),
            format!("/message?id={delayed}&row={row}"),
            format!("/message?id={delayed}&row=9999"),
        ] {
            let page = site.get(&path).await.body;
            assert!(page.contains("To be delivered") && page.contains(">Send now</summary>"), "{page}");
        }
        let nobody = site.get("/message?id=01890a5d-ac96-774b-bcce-b302099a8057").await;
        assert!(nobody.status == 404 && nobody.body.contains("There is no message"), "{}", nobody.body);
        assert_eq!(site.get("/message?id=42").await.status, 400);
    })
    .await;
}

#[tokio::test]
async fn a_payload_without_text_is_shown_as_bytes_and_markup_as_text() {
    on_each(async |site| {
        let bytes = site.insert(&Message::to("orders").payload_bytes(vec![0xff, 0xd8, b'J']), None).await.message_id;
        let page = site.get(&format!("/message?id={bytes}")).await.body;
        assert!(page.contains("ff d8 4a") && page.contains("No type is registered"), "{page}");
        let markup = Message::to("orders")
            .kind("<b>")
            .key("\"><script>alert(1)</script>")
            .payload_bytes("</pre><script>alert(2)</script>");
        let markup = site.insert(&markup, None).await.message_id;
        for path in [format!("/message?id={markup}"), "/messages?topic=orders".to_owned()] {
            let page = site.get(&path).await.body;
            assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert(1)"), "{page}");
        }
        let tombstone = site.insert(&Message::to("orders").key("1"), None).await.message_id;
        assert!(site.get(&format!("/message?id={tombstone}")).await.body.contains("a tombstone"));
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_grouped_and_found() {
    on_each(async |site| {
        for key in ["1", "2"] {
            site.dead("orders", key, "refused: amount is negative").await;
        }
        site.dead("invoices", "3", "attempts: no answer").await;
        let all = site.get("/dead-letters").await.body;
        assert!(all.contains("3 by topic, reason and class"), "{all}");
        assert!(all.contains("topic=orders&amp;reason_word=refused&amp;class=record\">2<"), "{all}");
        let group = site.get("/dead-letters?topic=orders&reason_word=refused&class=record").await.body;
        assert_eq!(group.matches("/message?id=").count(), 2, "{group}");
        assert!(site.get("/dead-letters?class=temporary").await.body.contains("Nothing matches"));
        assert!(site.get("/dead-letters?before=2020-01-01T00:00").await.body.contains("Nothing matches"));
        assert_eq!(site.get("/dead-letters?from=yesterday").await.status, 400);
        assert_eq!(site.get("/dead-letters?from=2027-01-01T00:00&before=2026-01-01T00:00").await.status, 400);
        let preview = site.get("/dead-letters/preview?act=purge&topic=orders").await.body;
        assert!(preview.contains("<strong>2 dead letters</strong>") && preview.contains("topic orders"), "{preview}");
        assert!(site.get("/dead-letters/preview?act=purge").await.body.contains("every dead letter of every topic"));
        assert!(site.get("/dead-letters/preview?act=redrive&key=none").await.body.contains("nothing to do"));
    })
    .await;
}

#[tokio::test]
async fn history_is_found_by_key_and_by_what_is_not_confirmed() {
    on_each(async |site| {
        let sent = site.sent("42").await.to_string();
        let by_key = site.get("/history?topic=invoices&key=42").await.body;
        assert!(by_key.contains(&sent) && by_key.contains("1 sent messages are kept"), "{by_key}");
        assert!(site.get("/history?topic=invoices&key=43").await.body.contains("Nothing matches"));
        let end = tokio::time::Instant::now() + Duration::from_secs(20);
        while !site.get("/history?topic=invoices").await.body.contains(&sent) {
            assert!(tokio::time::Instant::now() < end, "it is late after a second");
        }
        assert_eq!(site.get("/history?topic=invoices&after=x").await.status, 400);
    })
    .await;
}

#[tokio::test]
async fn lanes_show_their_owners_and_blocked_keys() {
    let site = Site::in_memory().await;
    assert!(site.get("/lanes").await.body.contains("no relay has started with this topic"));
    let blocking = site.blocked("7", 2).await;
    let page = site.get("/lanes?topic=payments").await.body;
    assert!(page.contains(">owns") || page.contains("owns 4"), "{page}");
    assert!(page.contains(&blocking.to_string()) && page.contains("amount is negative"), "{page}");
    assert!(page.contains("data-label=\"Behind it\">2<"), "{page}");
    let waiting = site.get("/messages?topic=payments&state=blocked").await.body;
    assert_eq!(waiting.matches("/message?id=").count(), 2, "{waiting}");
    let message = site.get(&format!("/message?id={blocking}")).await.body;
    assert!(message.contains("The owner of its lane sends it") && !message.contains(">Send now<"), "{message}");
}

#[tokio::test]
async fn a_database_that_is_down_is_no_page() {
    let site = Site::in_memory().await;
    site.store_in_memory().set_down(true);
    for path in ["/overview", "/topics", "/messages", "/dead-letters", "/history", "/audit"] {
        let response = site.get(path).await;
        assert_eq!(response.status, 503, "{path}: {}", response.body);
        assert!(response.body.contains("The database did not answer"), "{path}: {}", response.body);
    }
    assert_eq!(site.get("/jobs").await.status, 200, "it asks no database");
}
