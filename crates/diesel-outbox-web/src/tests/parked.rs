//! Records that consumers have parked.

use diesel_outbox::admin::AdminError;

use super::site::{EVERYTHING, SECRET, Site};

const TABLES: &str = include_str!("../../../../migrations/consumer/sqlite/0000consumer01_progress/up.sql");
const REASON: (&str, &str) = ("reason", "ticket 17");

/// Parks a record, and returns its row.
async fn park(site: &Site, offset: i64) -> i64 {
    site.run(&format!(
        "INSERT INTO outbox_parked (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms, parked_at,
           holds_key, error)
         VALUES ('billing', 'orders', '0', {offset}, X'6b', '[[\"token\",\"{SECRET}\"]]', CAST('{SECRET}' AS blob), -1, 1700000000000, 1, 'no <address>')"
    ));
    site.admin.parked(None, None, 100).await.expect("parked").items.last().expect("it is parked").id
}

#[tokio::test]
async fn without_consumers_the_page_says_so() {
    super::site::on_each(async |site| {
        let page = site.get("/parked").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("0000consumer01_progress"), "{}", page.body);
    })
    .await;
}

#[tokio::test]
async fn parked_records_are_shown_released_and_discarded() {
    let site = Site::on_sqlite().await;
    site.run(TABLES);
    let (released, discarded) = (park(&site, 7).await, park(&site, 8).await);
    let list = site.get("/parked?consumer=billing").await.body;
    assert!(list.contains("orders/0@7") && list.contains("no &lt;address&gt;") && !list.contains(SECRET), "{list}");
    let unknown = site.get("/parked?consumer=shipping").await;
    assert!(unknown.status == 404 && unknown.body.contains("billing"), "{}", unknown.body);
    let page = format!("/parked/record?id={released}");
    assert!(site.get(&page).await.body.contains(SECRET));
    let blind = site.get_as("view", &page).await.body;
    assert!(!blind.contains(SECRET) && !blind.contains("Release it"), "{blind}");

    let id = released.to_string();
    let unreasoned = site.post("/parked/release", &[("id", &id), ("reason", " ")]).await;
    assert_eq!(unreasoned.status, 400);
    assert_eq!(site.post("/parked/release", &[("id", &id), REASON]).await.status, 303);
    assert!(site.admin.find_parked(released).await.expect("it is there").is_released);
    let entry = site.audited().await.expect("an entry");
    assert_eq!((&*entry.action, entry.actor.as_deref(), entry.changed), ("release_parked", Some("alice"), 1));

    let id = discarded.to_string();
    assert_eq!(site.post("/parked/discard", &[("id", &id), REASON]).await.status, 303);
    assert!(matches!(site.admin.find_parked(discarded).await, Err(AdminError::NotParked { .. })));
    assert_eq!(site.post("/parked/discard", &[("id", &id), REASON]).await.status, 404);
    assert!(site.get("/parked?consumer=billing&after=parked_2").await.body.contains("No record is parked"));
    assert_eq!(site.get("/parked/record?id=x").await.status, 400);
    assert_eq!(site.get(&format!("/parked/record?id={discarded}")).await.status, 404);
}

/// Each act needs its own right, a reason, and a form of the dashboard itself.
#[tokio::test]
async fn whoever_may_not_act_changes_nothing() {
    let site = Site::on_sqlite().await;
    site.run(TABLES);
    let id = park(&site, 7).await.to_string();
    let page = format!("/parked/record?id={id}");
    for (rights, release, discard) in
        [("view", false, false), ("view,redrive", true, false), ("view,purge", false, true)]
    {
        let body = site.get_as(rights, &page).await.body;
        assert_eq!((body.contains("Release it"), body.contains("Discard it")), (release, discard), "{rights}");
    }
    assert_eq!(site.get_as("payloads,redrive,purge", &page).await.status, 403, "without the right to see anything");
    let fields = [("id", id.as_str()), REASON];
    for (path, rights) in [
        ("/parked/release", "view"),
        ("/parked/release", "view,payloads,purge"),
        ("/parked/discard", "view"),
        ("/parked/discard", "view,payloads,redrive"),
    ] {
        assert_eq!(site.post_as(rights, path, &fields).await.status, 403, "{path} with {rights}");
    }
    let form = ("content-type", "application/x-www-form-urlencoded");
    for path in ["/parked/release", "/parked/discard"] {
        assert_eq!(site.post(path, &fields[..1]).await.status, 422, "{path} without a reason");
        let foreign = [form, ("sec-fetch-site", "cross-site")];
        let body = format!("id={id}&reason=x");
        assert_eq!(site.send(EVERYTHING, "POST", path, &foreign, &body).await.status, 403, "{path} from another site");
    }
    let untouched = site.admin.find_parked(id.parse().expect("a row")).await.expect("it is there");
    assert!(!untouched.is_released);
    assert_eq!(site.audited().await, None);
}
