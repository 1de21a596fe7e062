//! Every act, as a person clicks it.

use std::time::{Duration, Instant};

use diesel_outbox::admin::{AdminError, AuditFilter, LiveState};
use diesel_outbox::{Message, MessageId};

use crate::page::Page;
use crate::shop::Shop;

pub(crate) async fn every_act(shop: &Shop, page: &Page) {
    topics(shop, page).await;
    waiting(shop, page).await;
    dead_letters(shop, page).await;
    edit(shop, page).await;
    redrive_all(shop, page).await;
    canary_is_stopped(shop, page).await;
    purge_all(shop, page).await;
    history(shop, page).await;
    parked(shop, page).await;
    for path in ["/overview", "/lanes", "/calendar", "/jobs"] {
        page.go(path).await;
        assert!(page.text().await.contains("Outbox"), "{path}");
    }
    audit(shop, page).await;
    page.assert_clean().await;
}

/// Polls until it is true.
async fn eventually(what: &str, is_true: impl AsyncFn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_true().await {
        assert!(Instant::now() < end, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn topics(shop: &Shop, page: &Page) {
    let row = "//tr[td[1]//a[normalize-space()='orders']]";
    page.go("/topics").await;
    page.act(row, "Pause").await;
    page.wait_for_text("The topic is paused").await;
    assert_eq!(shop.admin.paused().await.expect("paused").len(), 1);
    page.act(row, "Resume").await;
    page.wait_for_text("The topic is resumed").await;
    assert_eq!(shop.admin.paused().await.expect("paused"), []);
}

/// Opens a message from the list.
async fn open(page: &Page, list: &str, id: MessageId) {
    page.go(list).await;
    page.click(&format!("//a[normalize-space()='{id}']")).await;
    page.wait_for_text(&format!("Message {id}")).await;
}

async fn waiting(shop: &Shop, page: &Page) {
    let (hastened, cancelled) = (shop.delayed("hastened").await, shop.delayed("cancelled").await);
    open(page, "/messages?topic=orders&state=delayed", hastened).await;
    page.act("//main", "Send now").await;
    page.wait_for_text("The message is due").await;
    assert_eq!(shop.admin.live_message(hastened).await.expect("a live message").state, LiveState::Due);
    open(page, "/messages?topic=orders&key=cancelled", cancelled).await;
    page.act("//main", "Cancel for good").await;
    page.wait_for_text("The message is cancelled").await;
    assert!(matches!(shop.admin.live_message(cancelled).await, Err(AdminError::NotLive { .. })));
}

async fn dead_letters(shop: &Shop, page: &Page) {
    let redriven = shop.dead("redriven", "refused: amount is negative").await;
    let purged = shop.dead("purged", "refused: amount is negative").await;
    open(page, "/dead-letters", redriven).await;
    assert!(page.text().await.contains("\"order\": \"redriven\""), "the payload is shown");
    page.act("//main", "Redrive").await;
    page.wait_for_text("The dead letter is redriven").await;
    assert_eq!(shop.admin.live_message(redriven).await.expect("a live message").state, LiveState::Due);
    open(page, "/dead-letters?topic=orders&reason_word=refused", purged).await;
    page.act("//main", "Delete for good").await;
    page.wait_for_text("The dead letter is deleted").await;
    assert_eq!(shop.dead_count().await, 0);
}

async fn edit(shop: &Shop, page: &Page) {
    let id = shop.dead("edited", "refused: amount is negative").await;
    open(page, "/dead-letters", id).await;
    page.click("//a[normalize-space()='Edit and redrive']").await;
    page.write("//textarea[@name='payload']", "{\n  \"order\": \"edited\",\n  \"amount\": 9\n}").await;
    page.click("//button[normalize-space()='Show the difference']").await;
    page.wait_for_text("+   \"amount\": 9").await;
    assert!(page.text().await.contains("-   \"amount\": -1"));
    assert_eq!(shop.dead_count().await, 1, "nothing is changed yet");
    page.write("//input[@name='reason']", "ticket 17").await;
    page.click("//button[normalize-space()='Replace the dead letter']").await;
    page.wait_for_text("The edited message replaces the dead letter").await;
    assert_eq!(shop.dead_count().await, 0);
    let filter = diesel_outbox::admin::LiveFilter::of("orders").key("edited");
    let found = shop.admin.live_messages(&filter, None, 10).await.expect("live messages").items;
    let [message] = &found[..] else { panic!("one message: {found:?}") };
    assert_eq!(message.payload.as_deref(), Some(&b"{\n  \"order\": \"edited\",\n  \"amount\": 9\n}"[..]));
    assert_ne!(message.message_id, id);
}

async fn confirm(page: &Page, link: &str, button: &str) {
    page.click(&format!("//a[starts-with(normalize-space(), '{link}')]")).await;
    page.wait_for_text("This concerns").await;
    page.write("//input[@name='reason']", "ticket 17").await;
    if button == "Delete dead letters" {
        page.click("//input[@name='confirm']").await;
    }
    page.click(&format!("//button[normalize-space()='{button}']")).await;
    page.wait_for_text("Progress").await;
}

async fn redrive_all(shop: &Shop, page: &Page) {
    for number in 0..3 {
        shop.dead(&format!("all-{number}"), "refused: amount is negative").await;
    }
    page.go("/dead-letters?topic=orders").await;
    confirm(page, "Redrive all 3", "Redrive dead letters").await;
    page.wait_for_text("complete").await;
    assert_eq!(shop.dead_count().await, 0);
}

/// Nobody sends orders, so the canary waits after its first message.
async fn canary_is_stopped(shop: &Shop, page: &Page) {
    for number in 0..3 {
        shop.dead(&format!("few-{number}"), "refused: amount is negative").await;
    }
    page.go("/dead-letters?topic=orders").await;
    confirm(page, "Redrive 3, a few first", "Redrive dead letters, a few first").await;
    eventually("the first is redriven", async || shop.dead_count().await == 2).await;
    page.click("//a[normalize-space()='Stop ..']").await;
    page.write("//input[@name='reason']", "ticket 17").await;
    page.click("//button[normalize-space()='Stop']").await;
    page.wait_for_text("stopped by ann").await;
    assert_eq!(shop.dead_count().await, 2);
}

async fn purge_all(shop: &Shop, page: &Page) {
    page.go("/dead-letters?topic=orders").await;
    confirm(page, "Delete all 2", "Delete dead letters").await;
    page.wait_for_text("complete").await;
    assert_eq!(shop.dead_count().await, 0);
}

async fn history(shop: &Shop, page: &Page) {
    let id = shop.enqueue(&Message::to("invoices").kind("invoice.sent").key("77").payload_bytes("{}")).await;
    eventually("the relay has sent it", async || shop.admin.sent(id).await.is_ok()).await;
    let first = shop.admin.sent(id).await.expect("sent").sent_at;
    open(page, "/history?topic=invoices&key=77", id).await;
    page.act("//main", "Send again").await;
    page.wait_for_text("The message is sent again").await;
    eventually("it is sent once more", async || shop.admin.sent(id).await.is_ok_and(|message| message.sent_at > first))
        .await;
}

async fn parked(shop: &Shop, page: &Page) {
    page.go("/parked").await;
    assert!(page.text().await.contains("0000consumer01_progress"), "nobody has consumers here");
    shop.park(7..9).await;
    let open = async |record| {
        page.go("/parked?consumer=billing").await;
        page.click(&format!("//a[normalize-space()='{record}']")).await;
        page.wait_for_text("no address").await;
    };
    open("orders/0@7").await;
    page.act("//main", "Release it").await;
    page.wait_for_text("The record is released").await;
    open("orders/0@8").await;
    page.act("//main", "Discard it").await;
    page.wait_for_text("The record is discarded").await;
    let left = shop.admin.parked(None, None, 10).await.expect("parked").items;
    assert_eq!(left.iter().map(|record| (record.offset, record.is_released)).collect::<Vec<_>>(), [(7, true)]);
}

/// Each act is there with its actor and reason.
async fn audit(shop: &Shop, page: &Page) {
    page.go("/audit?actor=ann").await;
    let text = page.text().await;
    for action in [
        "pause",
        "resume",
        "send_now",
        "cancel_waiting",
        "redrive",
        "purge",
        "redrive_edited",
        "redrive_all",
        "redrive_canary",
        "stop",
        "purge_all",
        "resend",
        "release_parked",
        "discard_parked",
    ] {
        assert!(text.contains(action), "{action}: {text}");
        let filter = AuditFilter::new().actor("ann").action(action);
        let entries = shop.admin.audit(&filter, None, 10).await.expect("the audit").items;
        let [entry] = &entries[..] else { panic!("one entry of {action}: {entries:?}") };
        assert_eq!(entry.reason.as_deref(), Some("ticket 17"));
        assert!(entry.changed > 0);
    }
}
