//! Each act with its result in the store and in the audit.

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, LiveState};

use super::client::Response;
use super::site::{AT, SECRET, Site, on_each};

/// Asserts that an act was done, and that the audit has it with its actor and reason.
async fn assert_done(site: &Site, response: Response, action: &str, message_id: Option<MessageId>) {
    assert_eq!(response.status, 303, "{}", response.body);
    let to = response.header("location").expect("where to go").to_owned();
    let page = site.get(to.strip_prefix(AT).expect("within the dashboard")).await.body;
    assert!(page.contains("role=\"status\""), "it says what was done: {page}");
    let entry = site.audited().await.expect("an entry");
    assert_eq!((&*entry.action, entry.message_id, entry.changed), (action, message_id, 1));
    assert_eq!((entry.actor.as_deref(), entry.reason.as_deref()), (Some("alice"), Some("ticket 17")));
    let audit = site.get("/audit?actor=alice").await.body;
    assert!(audit.contains(action) && audit.contains("ticket 17"), "{audit}");
}

const REASON: (&str, &str) = ("reason", "ticket 17");

#[tokio::test]
async fn a_topic_is_paused_and_resumed() {
    on_each(async |site| {
        let fields = [("topic", "orders"), REASON];
        assert_done(site, site.post("/topics/pause", &fields).await, "pause", None).await;
        let paused = site.admin.paused().await.expect("paused");
        assert_eq!(paused.iter().map(|(topic, _)| &**topic).collect::<Vec<_>>(), ["orders"]);
        assert_done(site, site.post("/topics/resume", &fields).await, "resume", None).await;
        assert_eq!(site.admin.paused().await.expect("paused"), []);
        assert_eq!(site.post("/topics/resume", &fields).await.status, 409, "it is not paused");
        assert_eq!(site.post("/topics/pause", &[("topic", "none"), REASON]).await.status, 404);
    })
    .await;
}

#[tokio::test]
async fn a_waiting_message_is_sent_now_or_cancelled() {
    on_each(async |site| {
        let (hastened, cancelled) = (site.delayed("1").await, site.delayed("2").await);
        let id = hastened.to_string();
        let response = site.post("/message/send-now", &[("id", &id), REASON]).await;
        assert_done(site, response, "send_now", Some(hastened)).await;
        assert_eq!(site.admin.live_message(hastened).await.expect("a live message").state, LiveState::Due);
        let again = site.post("/message/send-now", &[("id", &id), REASON]).await;
        assert!(again.header("location").is_some_and(|to| to.ends_with("done=soon")), "{again:?}");
        let id = cancelled.to_string();
        let response = site.post("/message/cancel", &[("id", &id), REASON]).await;
        assert_done(site, response, "cancel_waiting", Some(cancelled)).await;
        assert!(matches!(site.admin.live_message(cancelled).await, Err(AdminError::NotLive { .. })));
        assert_eq!(site.post("/message/cancel", &[("id", &id), REASON]).await.status, 409);
    })
    .await;
}

#[tokio::test]
async fn a_dead_letter_is_redriven_or_deleted() {
    on_each(async |site| {
        let (redriven, purged) =
            (site.dead("orders", "1", "refused: no").await, site.dead("orders", "2", "refused: no").await);
        let id = redriven.to_string();
        let response = site.post("/message/redrive", &[("id", &id), REASON]).await;
        assert_done(site, response, "redrive", Some(redriven)).await;
        assert_eq!(site.admin.live_message(redriven).await.expect("a live message").attempts, 0);
        assert_eq!(site.post("/message/redrive", &[("id", &id), REASON]).await.status, 404);
        let id = purged.to_string();
        assert_done(site, site.post("/message/purge", &[("id", &id), REASON]).await, "purge", Some(purged)).await;
        assert!(matches!(site.admin.dead_letter(purged).await, Err(AdminError::NotDeadLetter { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_sent_message_is_sent_again() {
    on_each(async |site| {
        let sent = site.sent("1").await;
        let response = site.post("/message/resend", &[("id", &sent.to_string()), REASON]).await;
        assert_done(site, response, "resend", Some(sent)).await;
        assert_eq!(&*site.admin.live_message(sent).await.expect("a live message").topic, "invoices");
    })
    .await;
}

#[tokio::test]
async fn a_dead_letter_is_edited_after_its_difference_was_seen() {
    on_each(async |site| {
        let id = site.dead("orders", "1", "refused: no").await;
        let text = id.to_string();
        let form = site.get(&format!("/message/edit?id={id}")).await.body;
        assert!(form.contains(SECRET) && form.contains("<option value=\"orders\" selected>"), "{form}");
        let headers = r#"[["token","corrected"]]"#;
        let fields = [
            ("id", text.as_str()),
            ("topic", "orders"),
            ("kind", "order.placed"),
            ("key", "1"),
            ("headers", headers),
            ("payload", "{\"word\":\r\n\"salmon\"}"),
        ];
        let diff = site.post("/message/diff", &fields).await.body;
        assert!(diff.contains("<del>- {&quot;word&quot;:&quot;swordfish&quot;}</del>"), "{diff}");
        assert!(
            diff.contains("<ins>+ &quot;salmon&quot;}</ins>") && diff.contains("Replace the dead letter"),
            "{diff}"
        );
        assert!(site.admin.dead_letter(id).await.is_ok(), "nothing was changed");

        let unreasoned = site.post("/message/replace", &[&fields[..], &[("reason", " ")]].concat()).await;
        assert_eq!(unreasoned.status, 400);
        let response = site.post("/message/replace", &[&fields[..], &[REASON]].concat()).await;
        let to = response.header("location").expect("the new message").to_owned();
        assert_done(site, response, "redrive_edited", Some(id)).await;
        let new_id = to.split("id=").nth(1).and_then(|rest| rest[..36].parse().ok()).expect("its id");
        let message = site.admin.live_message(new_id).await.expect("a live message");
        assert_eq!(
            message.payload.as_deref(),
            Some(&b"{\"word\":\n\"salmon\"}"[..]),
            "with the line break of the person"
        );
        assert_eq!(message.headers_json, headers);
        assert!(matches!(site.admin.dead_letter(id).await, Err(AdminError::NotDeadLetter { .. })));
    })
    .await;
}

#[tokio::test]
async fn what_an_edit_would_break_is_refused() {
    on_each(async |site| {
        let id = site.dead("orders", "1", "refused: no").await.to_string();
        let edited = async |topic, headers, reason| {
            let fields = [
                ("id", id.as_str()),
                ("topic", topic),
                ("kind", ""),
                ("key", ""),
                ("headers", headers),
                ("payload", "x"),
                ("reason", reason),
            ];
            site.post("/message/replace", &fields).await.status
        };
        assert_eq!(edited("none", "[]", "x").await, 422, "an unknown topic");
        assert_eq!(edited("orders", "{}", "x").await, 400, "no headers");
        assert_eq!(edited("orders", "[]", "").await, 400, "no reason");
        assert!(site.admin.dead_letter(id.parse().expect("an id")).await.is_ok(), "it stays");
        assert_eq!(site.audited().await, None);
    })
    .await;
}

#[tokio::test]
async fn every_act_needs_a_reason() {
    on_each(async |site| {
        let id = site.dead("orders", "1", "refused: no").await.to_string();
        let before = site.snapshot().await;
        let fields = [("id", id.as_str()), ("topic", "orders")];
        for path in [
            "/topics/pause",
            "/message/send-now",
            "/message/cancel",
            "/message/redrive",
            "/message/purge",
            "/message/resend",
        ] {
            let blank = site.post(path, &[&fields[..], &[("reason", "  ")]].concat()).await;
            assert_eq!(blank.status, 400, "{path}: {}", blank.body);
            assert_eq!(site.post(path, &fields).await.status, 422, "{path}");
        }
        assert_eq!(site.snapshot().await, before);
    })
    .await;
}
