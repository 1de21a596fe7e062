//! Bulk acts: preview, confirmation, progress, stop.

use std::time::Duration;

use diesel_outbox::admin::{AuditEntry, AuditFilter};
use tokio::time::{Instant, sleep};

use super::site::{AT, Site, on_each};

/// The hidden fields of a preview's form.
fn hidden(body: &str) -> Vec<(String, String)> {
    let inputs = body.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = inputs.filter_map(|rest| {
        let (name, rest) = rest.split_once("\" value=\"")?;
        Some((name.to_owned(), rest.split('"').next()?.to_owned()))
    });
    fields.collect()
}

/// Previews an act and confirms it; returns the path of its job.
async fn confirm(site: &Site, act: &str, query: &str, more: &[(&str, &str)]) -> String {
    let preview = site.get(&format!("/dead-letters/preview?act={act}&{query}")).await.body;
    send(site, act, &hidden(&preview), more).await
}

async fn send(site: &Site, act: &str, hidden: &[(String, String)], more: &[(&str, &str)]) -> String {
    let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields: Vec<_> = hidden.chain([("reason", "ticket 17")]).chain(more.iter().copied()).collect();
    let response = site.post(&format!("/dead-letters/{act}"), &fields).await;
    assert_eq!(response.status, 303, "{}", response.body);
    response.header("location").and_then(|to| to.strip_prefix(AT)).expect("the job").to_owned()
}

/// Waits until a job's page says something.
async fn wait_for(site: &Site, job: &str, text: &str) -> String {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let page = site.get(job).await.body;
        if page.contains(text) {
            return page;
        }
        assert!(Instant::now() < end, "{text}: {page}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn entry(site: &Site, action: &str) -> Option<AuditEntry> {
    let page = site.admin.audit(&AuditFilter::new().action(action), None, 1).await.expect("the audit");
    page.items.into_iter().next()
}

async fn dead_count(site: &Site) -> usize {
    site.admin.count_dead_letters().await.expect("count").iter().map(|group| group.count).sum()
}

#[tokio::test]
async fn dead_letters_are_redriven_as_counted() {
    on_each(async |site| {
        for key in ["1", "2", "3"] {
            site.dead("orders", key, "refused: no").await;
        }
        site.dead("invoices", "1", "refused: no").await;
        let preview = site.get("/dead-letters/preview?act=redrive&topic=orders").await.body;
        site.pass(Duration::from_millis(5)).await;
        let late = site.dead("orders", "4", "refused: no").await;
        let job = send(site, "redrive", &hidden(&preview), &[("per_second", "1000")]).await;
        let page = wait_for(site, &job, ">complete<").await;
        assert!(page.contains("<strong>3</strong> of 3"), "{page}");
        assert!(site.admin.dead_letter(late).await.is_ok(), "it died after the preview");
        assert_eq!(dead_count(site).await, 2);
        let entry = entry(site, "redrive_all").await.expect("an entry");
        assert_eq!((entry.changed, entry.actor.as_deref(), entry.ended_at.is_some()), (3, Some("alice"), true));
        assert!(site.get("/jobs").await.body.contains("redrive_all"));
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_deleted_after_a_confirmation_only() {
    on_each(async |site| {
        for key in ["1", "2"] {
            site.dead("orders", key, "refused: no").await;
        }
        site.pass(Duration::from_millis(5)).await;
        let preview = site.get("/dead-letters/preview?act=purge").await.body;
        let fields = hidden(&preview);
        let unconfirmed: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain([("reason", "x")]).collect();
        assert_eq!(site.post("/dead-letters/purge", &unconfirmed).await.status, 400);
        assert_eq!(dead_count(site).await, 2);
        let job = send(site, "purge", &fields, &[("confirm", "yes")]).await;
        wait_for(site, &job, ">complete<").await;
        assert_eq!((dead_count(site).await, entry(site, "purge_all").await.map(|entry| entry.changed)), (0, Some(2)));
        site.dead("orders", "3", "refused: no").await;
        assert_eq!(send(site, "purge", &fields, &[("confirm", "yes")]).await, job, "the same form once more");
        assert_eq!(dead_count(site).await, 1, "does nothing");
    })
    .await;
}

/// Nobody sends what the canary redrives, so it waits, and is stopped.
#[tokio::test]
async fn an_act_is_stopped_in_its_middle_and_the_audit_says_how_far_it_came() {
    on_each(async |site| {
        for key in ["1", "2", "3"] {
            site.dead("orders", key, "refused: no").await;
        }
        site.pass(Duration::from_millis(5)).await;
        let job = confirm(site, "canary", "topic=orders", &[]).await;
        let end = Instant::now() + Duration::from_secs(30);
        while dead_count(site).await == 3 {
            assert!(Instant::now() < end, "the canary redrives the first");
            sleep(Duration::from_millis(5)).await;
        }
        let id = job.split("id=").nth(1).expect("its id");
        assert_eq!(site.post_as("view,redrive", "/job/stop", &[("id", id), ("reason", "x")]).await.status, 403);
        let stopped = site.post("/job/stop", &[("id", id), ("reason", "wrong topic")]).await;
        assert_eq!(stopped.status, 303, "{}", stopped.body);
        assert!(site.get(&job).await.body.contains("stopped by alice"));
        assert_eq!(site.post("/job/stop", &[("id", id), ("reason", "again")]).await.status, 409);
        let canary = entry(site, "redrive_canary").await.expect("an entry");
        assert_eq!((canary.changed, canary.ended_at), (1, None), "it did not end");
        let stop = entry(site, "stop").await.expect("an entry");
        assert_eq!((stop.reason.as_deref(), stop.actor.as_deref()), (Some("wrong topic"), Some("alice")));
        assert_eq!(dead_count(site).await, 2, "nothing is lost");
    })
    .await;
}

#[tokio::test]
async fn few_acts_run_at_once() {
    let site = Site::in_memory().await;
    for key in ["1", "2", "3"] {
        site.dead("orders", key, "refused: no").await;
    }
    site.pass(Duration::from_millis(5)).await;
    for _ in 0..2 {
        confirm(&site, "canary", "topic=orders", &[]).await;
    }
    let preview = site.get("/dead-letters/preview?act=redrive&topic=orders").await.body;
    let fields = hidden(&preview);
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain([("reason", "x")]).collect();
    let refused = site.post("/dead-letters/redrive", &fields).await;
    assert!(refused.status == 409 && refused.body.contains("2 bulk acts are running"), "{}", refused.body);
}

#[tokio::test]
async fn without_the_audits_table_nothing_can_be_changed() {
    let site = Site::on_sqlite().await;
    let id = site.dead("orders", "1", "refused: no").await.to_string();
    site.run("DROP TABLE outbox_audit");
    let refused = site.post("/message/purge", &[("id", &id), ("reason", "x")]).await;
    assert!(refused.status == 503 && refused.body.contains("0000outbox06_audit"), "{}", refused.body);
    assert_eq!(dead_count(&site).await, 1);
}
