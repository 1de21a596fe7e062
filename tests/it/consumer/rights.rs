//! The rights that docs/operations.md lists for consumers: with them a consumer, and the admin of what it parks, do all of their work.

use std::collections::BTreeSet;

use diesel_outbox::admin::{AdminError, AuditFilter};
use diesel_outbox::consumer::HandlerError;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::{Outbox, Topic};

use super::bed::{Bed, DEADLINE, Place, number, numbers, wait_until};

const PAGE: &str = include_str!("../../../docs/operations.md");

/// The place with another role's login.
fn of_role(place: &Place, role: &str) -> Place {
    let (_, server) = place.database_url.rsplit_once('@').expect("a login");
    Place { database_url: format!("postgres://{role}:swordfish@{server}"), ..place.clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn consumer_and_admin_work_with_their_documented_rights() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    let (_, database) = place.database_url.rsplit_once('/').expect("a database");
    let role = |role: &str| format!("{database}_{role}");
    let (_, section) = PAGE.split_once("\n## Rights\n").expect("a section about rights");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let roles = ["app", "relay", "admin", "consumer"];
    roles.iter().for_each(|of| place.run(&format!("CREATE ROLE {} LOGIN PASSWORD 'swordfish'", role(of))));
    for block in section.split("```sql\n").skip(1) {
        let (grants, _) = block.split_once("```").expect("its end");
        place.run(&grants.replace("shop_", &format!("{database}_")));
    }
    // What the handler does is the application's own.
    place.run(&format!("GRANT SELECT, INSERT ON effects TO {}", role("consumer")));

    let of_consumer = of_role(place, &role("consumer"));
    let days = || place.count("SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_inbox'::regclass");
    let before = days();
    let consumer = of_consumer.start(of_consumer.consumer().attempts_max(1), |record| match number(record) {
        3 | 4 => Err(HandlerError::permanent("no address")),
        _ => Ok(()),
    });
    wait_until("the days of the inbox are created", || days() > before);
    place.send(numbers(0..10));
    place.wait_until_consumed();

    let url = of_role(place, &role("admin")).database_url;
    let outbox = Outbox::builder().topic(Topic::new("orders")).require_audit().build().expect("an outbox");
    let admin = outbox.admin(PostgresStore::connect(url).expect("a store")).acting_as("alice");
    let error = admin.parked(Some("billing"), None, 10).await.expect_err("there is no such consumer");
    assert!(matches!(error, AdminError::NoSuchConsumer { .. }), "{error}");
    let parked = admin.parked(None, None, 10).await.expect("parked").items;
    // They have different keys, so either may be parked first.
    assert_eq!(parked.iter().map(|record| record.offset).collect::<BTreeSet<_>>(), BTreeSet::from([3, 4]));
    admin.release_parked(parked[0].id).await.expect("released");
    wait_until("it is tried again", || place.count("SELECT count(*) FROM outbox_parked WHERE replays = 1") == 1);
    admin.discard_parked(parked[1].id).await.expect("discarded");
    let entries = admin.audit(&AuditFilter::new().actor("alice"), None, 10).await.expect("the audit").items;
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
