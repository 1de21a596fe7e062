use std::time::Duration;

use diesel_outbox::Message;
use diesel_outbox::admin::{AuditFilter, Canary, CanaryHalt, CanaryReport, DeadLetterFilter};
use diesel_outbox::transport::{FailureClass, ScriptedResponse};

use super::fixture::{ACCOUNTS, BAD, Fixture, Handle, ORDERS, PAYMENTS, message, until};
use super::{admin_tests, call};

admin_tests!(
    a_canary_halts_until_the_broker_is_mended,
    a_canary_of_an_ordered_topic_is_sent,
    a_canary_halts_at_a_paused_topic,
);

fn messages(topic: &str, count: usize) -> Vec<Message> {
    (0..count).map(|_| message(topic, BAD)).collect()
}

fn canary() -> Canary {
    Canary::default().steps([1, 3])
}

fn redriven(report: &CanaryReport) -> Vec<usize> {
    report.steps.iter().map(|step| step.redriven).collect()
}

async fn a_canary_halts_until_the_broker_is_mended(fixture: &mut Fixture) {
    for topic in [ORDERS, PAYMENTS] {
        let ids = fixture.dead_letter_all(&messages(topic, 6)).await;
        let of_topic = DeadLetterFilter::new().topic(topic);
        fixture.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), |_| true);
        let report = call!(fixture, redrive_canary(&of_topic, canary(), |_| ())).expect("redrive");
        assert_eq!((redriven(&report), &report.halt), (vec![1], &Some(CanaryHalt::DeadAgain)), "{report:?}");
        assert_eq!(report.dead_again.len(), 1);
        assert!(report.dead_again[0].reason.starts_with("attempts: record: "), "{report:?}");
        fixture.broker.clear_responses();

        let mut steps = Vec::new();
        let report =
            call!(fixture, redrive_canary(&of_topic, canary(), |step| steps.push(step.redriven))).expect("redrive");
        assert_eq!((redriven(&report), &report.halt), (vec![1, 3, 2], &None), "{report:?}");
        assert_eq!(steps, [1, 3, 2]);
        assert!(ids.iter().all(|id| fixture.is_delivered(*id)), "each has left before the report");
    }
    let page = call!(fixture, audit(&AuditFilter::new().action("redrive_canary"), None, 10)).expect("audit");
    let changed: Vec<usize> = page.items.iter().rev().map(|entry| entry.changed).collect();
    assert_eq!(changed, [1, 6, 1, 6]);
    assert!(page.items.iter().all(|entry| entry.ended_at.is_some() && entry.actor.is_none()), "{page:?}");
}

/// Redriven messages have other rows in their lanes.
async fn a_canary_of_an_ordered_topic_is_sent(fixture: &mut Fixture) {
    let ids = fixture.dead_letter_all(&messages(ACCOUNTS, 6)).await;
    let report = call!(fixture, redrive_canary(&DeadLetterFilter::new(), canary(), |_| ())).expect("redrive");
    assert_eq!((redriven(&report), &report.halt), (vec![1, 3, 2], &None), "{report:?}");
    assert!(report.steps.iter().all(|step| step.sent == step.redriven), "{report:?}");
    fixture.delivered(&ids).await;
}

async fn a_canary_halts_at_a_paused_topic(fixture: &mut Fixture) {
    let ids = fixture.dead_letter_all(&messages(PAYMENTS, 2)).await;
    call!(fixture, pause(PAYMENTS)).expect("pause");
    until("the relay has seen it", || fixture.relay.status().paused_topics.len() == 1).await;
    let shortly = canary().outcome_within(Duration::from_millis(300));
    let report = call!(fixture, redrive_canary(&DeadLetterFilter::new(), shortly, |_| ())).expect("redrive");
    assert_eq!(report.halt, Some(CanaryHalt::TimedOut { paused: vec![PAYMENTS.into()] }), "{report:?}");
    assert_eq!((redriven(&report), report.pending.len()), (vec![1], 1));
    call!(fixture, resume(PAYMENTS)).expect("resume");
    fixture.delivered(&report.pending).await;
    assert_eq!(ids.iter().filter(|id| fixture.is_delivered(**id)).count(), 1, "the other one stays dead");
}
