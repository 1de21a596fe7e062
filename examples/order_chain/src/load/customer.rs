//! A customer: orders, repeats what was not answered, looks at the order, and pays, or does not.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Load;
use super::client::{Answer, Ask, Client};
use super::told::Told;

/// Before a request is repeated.
const PAUSE: Duration = Duration::from_millis(30);
/// After this a request counts as never answered, and the customer goes on. A server that was killed takes up to a minute to start again on a
/// busy machine, and those that a request needs may be killed one after the other.
const ANSWER_MAX: Duration = Duration::from_secs(180);

pub(super) struct Customer {
    pub(super) id: i64,
    pub(super) client: Arc<dyn Client>,
    pub(super) told: Arc<Told>,
    pub(super) load: Load,
    pub(super) rng: Rng,
}

impl Customer {
    /// Orders until it is told to stop, and then ends what it began.
    pub(super) async fn shop(mut self) {
        let mut later = JoinSet::new();
        while !self.load.stop.is_cancelled() {
            match self.place().await {
                Some(order_id) => {
                    self.decide_look(&order_id, &mut later);
                    self.decide_payment(order_id, &mut later);
                }
                None => sleep(PAUSE).await,
            }
            while later.try_join_next().is_some() {}
        }
        later.join_all().await;
    }

    /// Places one order. Returns its id if there is one.
    async fn place(&mut self) -> Option<String> {
        let key = format!("{:032x}", self.rng.u128(..));
        let body = self.wish();
        // An impatient customer presses the button twice.
        let is_twice = self.rng.u8(..100) < 5;
        let order_id = self.place_by(&Ask::place(&key, body.clone()), is_twice).await?;
        if self.rng.u8(..100) < 2 {
            self.reuse_key(&key, body).await;
        }
        Some(order_id)
    }

    /// Whichever of its requests was told of the order, there is one.
    async fn place_by(&self, ask: &Ask, is_twice: bool) -> Option<String> {
        let began = Instant::now();
        let one = async || self.answer(ask).await.map(|answer| (answer, began.elapsed()));
        let answers = if is_twice {
            let (first, second) = tokio::join!(one(), one());
            [first, second]
        } else {
            [one().await, None]
        };
        let answers: Vec<(Answer, Duration)> = answers.into_iter().flatten().collect();
        self.told.answers().asked(&answers)
    }

    fn wish(&mut self) -> Value {
        let product_id = self.load.zipf.pick(&mut self.rng) + 1;
        let coupon_id = (self.rng.u8(..100) < 30).then(|| self.rng.i64(1..=self.load.coupons));
        json!({
            "customer_id": self.id,
            "product_id": product_id,
            "quantity": self.rng.i64(1..=3),
            "coupon_id": coupon_id,
        })
    }

    /// Repeats a request until it has an answer that stays, or until it is given up.
    async fn answer(&self, ask: &Ask) -> Option<Answer> {
        let answer = timeout(ANSWER_MAX, self.repeat(ask)).await.ok();
        if answer.is_none() {
            self.told.answers().given_up.push(format!("{ask:?} was not answered within {ANSWER_MAX:?}"));
        }
        answer
    }

    async fn repeat(&self, ask: &Ask) -> Answer {
        loop {
            match self.client.send(ask).await {
                Ok(answer) if !answer.status.is_server_error() => return answer,
                Ok(answer) if answer.status != StatusCode::SERVICE_UNAVAILABLE => {
                    self.told.answers().absurd.push(format!("{ask:?} was answered by {answer:?}"));
                }
                Ok(_) | Err(_) => self.told.answers().unanswered += 1,
            }
            sleep(PAUSE).await;
        }
    }

    /// The same key with another body is refused.
    async fn reuse_key(&self, key: &str, mut body: Value) {
        body["quantity"] = json!(body["quantity"].as_i64().unwrap_or_default() + 1);
        let Some(answer) = self.answer(&Ask::place(key, body)).await else { return };
        if answer.status != StatusCode::UNPROCESSABLE_ENTITY {
            self.told.answers().absurd.push(format!("a key was used twice, and the answer is {answer:?}"));
        }
    }

    /// Some look at their order while it may be paid or closed, and again later.
    fn decide_look(&mut self, order_id: &str, later: &mut JoinSet<()>) {
        if self.rng.u8(..100) >= 10 {
            return;
        }
        let waits = [self.rng.f64(), self.rng.f64()].map(|share| self.load.payment_term.mul_f64(share * 0.75));
        let (looking, order_id) = (self.fork(), order_id.to_owned());
        later.spawn(async move {
            for wait in waits {
                sleep(wait).await;
                looking.look(&order_id).await;
            }
        });
    }

    async fn look(&self, order_id: &str) {
        let before = self.told.answers().known(order_id);
        if let Some(answer) = self.answer(&Ask::find(order_id)).await {
            self.told.answers().looked_at(order_id, before, &answer);
        }
    }

    /// Most pay at once, some when the term ends, so that the payment and the close race, and some never.
    fn decide_payment(&mut self, order_id: String, later: &mut JoinSet<()>) {
        let wait = match self.rng.u8(..100) {
            0..60 => Duration::ZERO,
            60..80 => {
                let early = Duration::from_millis(self.rng.u64(0..100));
                self.load.payment_term.saturating_sub(early) + Duration::from_millis(50)
            }
            _ => return,
        };
        let paying = self.fork();
        later.spawn(async move {
            sleep(wait).await;
            paying.pay(&order_id).await;
        });
    }

    async fn pay(&self, order_id: &str) {
        let before = self.told.answers().known(order_id);
        if let Some(answer) = self.answer(&Ask::pay(order_id)).await {
            self.told.answers().asked_to_pay(order_id, before, &answer);
        }
    }

    /// The same customer, for what goes on beside the next order.
    fn fork(&mut self) -> Self {
        Self {
            rng: self.rng.fork(),
            client: Arc::clone(&self.client),
            told: Arc::clone(&self.told),
            load: self.load.clone(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::Failure;
    use crate::load::stop::StopLoad;
    use crate::load::zipf::Zipf;

    /// Gives these answers one after the other, each after so many milliseconds, and then none.
    struct Scripted(Mutex<VecDeque<(u64, u16)>>);

    #[async_trait]
    impl Client for Scripted {
        async fn send(&self, _ask: &Ask) -> Result<Answer, Failure> {
            let next = self.0.lock().expect("no panic").pop_front();
            let (after, status) = next.ok_or("the shop is away")?;
            sleep(Duration::from_millis(after)).await;
            let status = StatusCode::from_u16(status)?;
            Ok(Answer { status, body: json!({ "id": "a", "state": "created" }) })
        }
    }

    fn customer(script: &[(u64, u16)]) -> Customer {
        let client = Arc::new(Scripted(Mutex::new(script.iter().copied().collect())));
        let payment_term = Duration::from_secs(1);
        let load = Load { zipf: Zipf::new(1, 1.0), coupons: 1, payment_term, stop: StopLoad::default() };
        Customer { id: 1, client, told: Arc::default(), load, rng: Rng::with_seed(1) }
    }

    async fn places(script: &[(u64, u16)], is_twice: bool) -> (Option<String>, Arc<Told>) {
        let customer = customer(script);
        let order_id = customer.place_by(&Ask::place("key", json!({})), is_twice).await;
        (order_id, customer.told)
    }

    /// Each sleep may be rounded up to the next millisecond.
    fn assert_took(latencies: &[Duration], least: Duration) {
        assert_eq!(latencies.len(), 1);
        assert!((least..least + Duration::from_millis(10)).contains(&latencies[0]), "{latencies:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_customer_knows_an_order_by_the_second_request_alone() {
        let (order_id, told) = places(&[(1, 409), (5, 201)], true).await;
        assert_eq!(order_id.as_deref(), Some("a"));
        let told = told.answers();
        assert!(told.placed.contains("a"));
        assert_took(&told.latencies, Duration::from_millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_took_from_its_first_request_on_whatever_the_answer_is_called() {
        // The COMMIT's answer was lost twice.
        let (order_id, told) = places(&[(400, 503), (400, 503), (2, 200)], false).await;
        assert_eq!(order_id.as_deref(), Some("a"));
        let told = told.answers();
        assert_took(&told.latencies, Duration::from_millis(802) + 2 * PAUSE);
        assert_eq!(told.unanswered, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_is_given_up_and_reported() {
        let (order_id, told) = places(&[], false).await;
        assert_eq!(order_id, None);
        let told = told.answers();
        assert_eq!((told.given_up.len(), told.latencies.len()), (1, 0));
        let broken = told.broken_promises(&[]);
        assert!(broken[0].contains("was not answered within 180s"), "{broken:?}");
    }
}
