//! What customers were told, and how long it took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;

use super::client::Answer;
use crate::domain::{OrderRow, OrderState};

/// What customers were told. The table must agree with every answer.
#[derive(Debug, Default)]
pub struct Told(Mutex<Answers>);

/// The answers so far.
#[derive(Debug, Default)]
pub struct Answers {
    /// Orders that were confirmed.
    pub placed: BTreeSet<String>,
    /// Payments that were confirmed.
    pub paid: BTreeSet<String>,
    /// Orders of which the customer was told that they are closed.
    pub closed: BTreeSet<String>,
    /// How often each status was the answer to POST /orders.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without an answer, which were repeated.
    pub unanswered: u64,
    /// Requests that were repeated for so long that the customer gave them up.
    pub given_up: Vec<String>,
    /// Of each confirmed order, how long it took from its first request to the first answer that told of it.
    pub latencies: Vec<Duration>,
    /// Answers that no shop may give.
    pub absurd: Vec<String>,
    /// By order, its first body without the state, which alone may change. As text it is a third of the size: a run has many.
    pub(crate) bodies: BTreeMap<String, String>,
}

impl Told {
    /// The answers so far.
    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    /// Notes the answers to all requests of one key, each with the time since the first of them was sent. Returns the order, if there is one:
    /// whichever request was told of it. A request may have been refused before the other one was confirmed, by a coupon that was in use, say.
    pub(super) fn asked(&mut self, answers: &[(Answer, Duration)]) -> Option<String> {
        for (answer, _) in answers {
            *self.statuses.entry(answer.status.as_u16()).or_default() += 1;
        }
        let mut orders = Vec::new();
        for (answer, took) in answers.iter().filter(|(answer, _)| answer.status.is_success()) {
            orders.extend(self.heard(&answer.body, None).map(|id| (*took, id)));
        }
        orders.sort();
        if orders.iter().any(|(_, id)| *id != orders[0].1) {
            self.absurd.push(format!("one key made several orders: {answers:?}"));
        }
        for (took, id) in &orders {
            if self.placed.insert(id.clone()) {
                self.latencies.push(*took);
            }
        }
        Some(orders.first()?.1.clone())
    }

    /// Notes the answer to a payment. `before` is what was known when it was sent.
    pub(super) fn asked_to_pay(&mut self, order_id: &str, before: Option<OrderState>, answer: &Answer) {
        match answer.status {
            StatusCode::OK => {
                self.paid.insert(order_id.to_owned());
                self.heard_of(order_id, before, answer);
            }
            StatusCode::CONFLICT => drop(self.closed.insert(order_id.to_owned())),
            _ => self.absurd.push(format!("the payment of order {order_id} was answered by {answer:?}")),
        }
    }

    /// Notes the answer to GET /orders/{id}. `before` is what was known when it was sent.
    pub(super) fn looked_at(&mut self, order_id: &str, before: Option<OrderState>, answer: &Answer) {
        match answer.status {
            StatusCode::OK => self.heard_of(order_id, before, answer),
            _ => {
                self.absurd.push(format!("order {order_id} was confirmed, and a look at it is answered by {answer:?}"))
            }
        }
    }

    /// The latest state that anybody was told of.
    pub(super) fn known(&self, order_id: &str) -> Option<OrderState> {
        let states = [
            (&self.paid, OrderState::Paid),
            (&self.closed, OrderState::Cancelled),
            (&self.placed, OrderState::Created),
        ];
        states.into_iter().find(|(ids, _)| ids.contains(order_id)).map(|(_, state)| state)
    }

    fn heard_of(&mut self, order_id: &str, before: Option<OrderState>, answer: &Answer) {
        if self.heard(&answer.body, before).is_some_and(|id| id != order_id) {
            self.absurd.push(format!("order {order_id} was asked for, and the answer is {answer:?}"));
        }
    }

    /// Remembers what was said of an order, and returns its id. It may not contradict what was said before, and the state may not go back: of
    /// what was known when the request was sent, because answers overtake each other.
    fn heard(&mut self, body: &Value, before: Option<OrderState>) -> Option<String> {
        let Some(id) = body["id"].as_str() else {
            self.absurd.push(format!("an answer has no order: {body}"));
            return None;
        };
        let stays = what_stays(body);
        let first = self.bodies.entry(id.to_owned()).or_insert_with(|| stays.clone());
        if *first != stays {
            self.absurd.push(format!("order {id} was {first}, and then {stays}"));
        }
        if let Some(state) = body["state"].as_str().and_then(OrderState::of_text) {
            if before.is_some_and(|before| before != OrderState::Created && before != state) {
                self.absurd.push(format!("order {id} was {before:?}, and then {state:?}"));
            }
            match state {
                OrderState::Created => {}
                OrderState::Paid => drop(self.paid.insert(id.to_owned())),
                OrderState::Cancelled => drop(self.closed.insert(id.to_owned())),
                OrderState::Refused => self.absurd.push(format!("a customer was shown order {id}, which is none")),
            }
        }
        Some(id.to_owned())
    }

    /// How the table differs from what customers were told.
    pub fn broken_promises(&self, orders: &[OrderRow]) -> Vec<String> {
        let states: BTreeMap<&str, OrderState> = orders.iter().map(|row| (row.order.id.as_str(), row.state)).collect();
        let mut broken: Vec<String> = self.absurd.iter().chain(&self.given_up).cloned().collect();
        let is = |id: &String| states.get(id.as_str()).copied();
        broken.extend(
            self.placed
                .iter()
                .filter(|id| is(id).is_none())
                .map(|id| format!("order {id} was confirmed, and is not there")),
        );
        let not_paid = self.paid.iter().filter(|id| is(id) != Some(OrderState::Paid));
        broken.extend(not_paid.map(|id| format!("the payment of order {id} was confirmed, and it is {:?}", is(id))));
        let not_closed = self.closed.iter().filter(|id| is(id) != Some(OrderState::Cancelled));
        broken.extend(not_closed.map(|id| format!("order {id} was said to be closed, and it is {:?}", is(id))));
        broken.extend(orders.iter().filter_map(|row| self.other_total(row)));
        broken
    }

    /// What a customer was told that an order costs, if that is not what the table has.
    fn other_total(&self, row: &OrderRow) -> Option<String> {
        let (id, total) = (&row.order.id, row.order.total_cents);
        let said: Value = serde_json::from_str(self.bodies.get(id)?).ok()?;
        let said = said.get("total_cents")?;
        (*said != total).then(|| format!("order {id} was said to cost {said}, and it costs {total}"))
    }

    /// A quantile of the latencies.
    pub fn latency(&mut self, of_hundred: usize) -> Duration {
        self.latencies.sort_unstable();
        let at = (self.latencies.len() * of_hundred / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).copied().unwrap_or_default()
    }
}

/// An order's body without its state.
fn what_stays(body: &Value) -> String {
    let mut stays = body.clone();
    if let Some(fields) = stays.as_object_mut() {
        fields.remove("state");
    }
    stays.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: StatusCode, body: Value) -> Answer {
        Answer { status, body }
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn an_order_is_known_by_whichever_answer_told_of_it() {
        let refused = || answer(StatusCode::CONFLICT, json!({ "error": "coupon in use" }));
        let made = || answer(StatusCode::CREATED, json!({ "id": "a", "total_cents": 5, "state": "created" }));
        for answers in [[(refused(), millis(1)), (made(), millis(9))], [(made(), millis(9)), (refused(), millis(1))]] {
            let mut told = Answers::default();
            assert_eq!(told.asked(&answers).as_deref(), Some("a"));
            assert_eq!((told.placed.len(), &told.latencies), (1, &vec![millis(9)]));
            assert_eq!(told.statuses, BTreeMap::from([(201, 1), (409, 1)]));
            assert_eq!(told.absurd, Vec::<String>::new());
        }
        assert_eq!(Answers::default().asked(&[(refused(), millis(1))]), None);
    }

    #[test]
    fn an_order_is_counted_once_and_with_the_first_answer_that_told_of_it() {
        let mut told = Answers::default();
        let body = json!({ "id": "a", "total_cents": 5 });
        let both = [(StatusCode::CREATED, 700), (StatusCode::OK, 80)];
        let both = both.map(|(status, took)| (answer(status, body.clone()), millis(took)));
        assert_eq!(told.asked(&both).as_deref(), Some("a"));
        assert_eq!(told.asked(&both).as_deref(), Some("a"));
        assert_eq!(told.latencies, [millis(80)]);
        // A COMMIT whose answer was lost: the repetition is answered by 200, and is the slowest.
        let late = [(answer(StatusCode::OK, json!({ "id": "b" })), millis(3_000))];
        told.asked(&late);
        assert_eq!((told.latencies.len(), told.latency(99)), (2, millis(3_000)));
        assert_eq!(told.absurd, Vec::<String>::new());
    }

    #[test]
    fn answers_that_contradict_each_other_are_broken_promises() {
        let created = |id: &str, total: i64| {
            (answer(StatusCode::CREATED, json!({ "id": id, "total_cents": total, "state": "created" })), millis(1))
        };
        let look = |state: &str| answer(StatusCode::OK, json!({ "id": "a", "total_cents": 5, "state": state }));
        let none: &[(Answer, Duration)] = &[];
        let cases: [(&[_], _, &str); 5] = [
            (&[created("a", 5), created("b", 5)], None, "one key made several orders"),
            (&[created("a", 5), created("a", 6)], None, "and then"),
            (none, Some((Some(OrderState::Paid), look("created"))), "was Some(Paid), and then Created"),
            (none, Some((Some(OrderState::Created), answer(StatusCode::NOT_FOUND, json!({})))), "a look at it"),
            (none, Some((None, answer(StatusCode::OK, json!({ "id": "b" })))), "order a was asked for"),
        ];
        for (asked, looked, says) in cases {
            let mut told = Answers::default();
            told.asked(asked);
            if let Some((before, answer)) = looked {
                told.looked_at("a", before, &answer);
            }
            assert_eq!(told.absurd.len(), 1, "{says}: {:?}", told.absurd);
            assert!(told.absurd[0].contains(says), "{:?}", told.absurd);
        }
        let mut told = Answers::default();
        told.asked(&[created("a", 5)]);
        // The look was sent before the payment was answered, and is answered after it.
        for (before, state) in [("created", "paid"), ("created", "created"), ("paid", "paid")] {
            told.looked_at("a", OrderState::of_text(before), &look(state));
        }
        assert_eq!((told.known("a"), &told.absurd), (Some(OrderState::Paid), &Vec::new()));
        let broken = told.broken_promises(&[row("a", OrderState::Paid)]);
        assert_eq!(broken, ["order a was said to cost 5, and it costs 1"]);
    }

    fn row(id: &str, state: OrderState) -> OrderRow {
        OrderRow::for_test(id, state, 1)
    }

    #[test]
    fn every_broken_promise_is_found() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
        let answers = Answers {
            placed: ids(&["a", "b", "gone"]),
            paid: ids(&["a", "b"]),
            closed: ids(&["c", "d"]),
            ..Answers::default()
        };
        let orders = [
            row("a", OrderState::Paid),
            row("b", OrderState::Cancelled),
            row("c", OrderState::Cancelled),
            row("d", OrderState::Paid),
        ];
        let broken = answers.broken_promises(&orders);
        assert_eq!(broken.len(), 3, "{broken:?}");
        for (text, id) in broken.iter().zip(["gone", "b", "d"]) {
            assert!(text.contains(&format!("order {id} ")), "{text}");
        }
    }

    #[test]
    fn quantiles_are_of_the_sorted_latencies() {
        let latencies = (0..100).rev().map(Duration::from_millis).collect();
        let mut answers = Answers { latencies, ..Answers::default() };
        assert_eq!(answers.latency(50), Duration::from_millis(50));
        assert_eq!(answers.latency(99), Duration::from_millis(99));
        assert_eq!(Answers::default().latency(50), Duration::ZERO);
    }
}
