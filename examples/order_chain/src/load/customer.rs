//! A customer: orders, repeats what was not answered, and pays, or does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Load;
use super::client::{Answer, Ask, Client};
use super::told::Told;

/// Before a request is repeated.
const PAUSE: Duration = Duration::from_millis(30);

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
        let mut payments = tokio::task::JoinSet::new();
        while !self.load.stop.is_cancelled() {
            match self.place().await {
                Some(order_id) => self.decide_payment(order_id, &mut payments),
                None => sleep(PAUSE).await,
            }
            while payments.try_join_next().is_some() {}
        }
        payments.join_all().await;
    }

    /// Places one order. Returns its id if there is one.
    async fn place(&mut self) -> Option<String> {
        let key = format!("{:032x}", self.rng.u128(..));
        let body = self.wish();
        let ask = Ask::place(&key, body.clone());
        let began = Instant::now();
        // An impatient customer presses the button twice.
        let answer = if self.rng.u8(..100) < 5 {
            let (first, second) = tokio::join!(self.answer(&ask), self.answer(&ask));
            self.same_order(&first, &second);
            first
        } else {
            self.answer(&ask).await
        };
        *self.told.answers().statuses.entry(answer.status.as_u16()).or_default() += 1;
        if !answer.status.is_success() {
            return None;
        }
        let order_id = answer.body["id"].as_str()?.to_owned();
        self.told.answers().placed(&order_id, (answer.status == StatusCode::CREATED).then(|| began.elapsed()));
        if self.rng.u8(..100) < 2 {
            self.reuse_key(&key, body).await;
        }
        Some(order_id)
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

    /// Repeats a request until it has an answer that stays.
    async fn answer(&self, ask: &Ask) -> Answer {
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

    /// Both requests of one key are about the same order. One of them may have come before the coupon was free, say.
    fn same_order(&self, first: &Answer, second: &Answer) {
        let is_other = |answer: &Answer| answer.status.is_success() && answer.body["id"] != first.body["id"];
        if first.status.is_success() && is_other(second) {
            self.told.answers().absurd.push(format!("one key made two orders: {first:?} and {second:?}"));
        }
    }

    /// The same key with another body is refused.
    async fn reuse_key(&self, key: &str, mut body: Value) {
        body["quantity"] = json!(body["quantity"].as_i64().unwrap_or_default() + 1);
        let answer = self.answer(&Ask::place(key, body)).await;
        if answer.status != StatusCode::UNPROCESSABLE_ENTITY {
            self.told.answers().absurd.push(format!("a key was used twice, and the answer is {answer:?}"));
        }
    }

    /// Most pay at once, some when the term ends, so that the payment and the close race, and some never.
    fn decide_payment(&mut self, order_id: String, payments: &mut tokio::task::JoinSet<()>) {
        let wait = match self.rng.u8(..100) {
            0..60 => Duration::ZERO,
            60..80 => {
                let early = Duration::from_millis(self.rng.u64(0..100));
                self.load.payment_term.saturating_sub(early) + Duration::from_millis(50)
            }
            _ => return,
        };
        let paying = Self {
            rng: self.rng.fork(),
            client: Arc::clone(&self.client),
            told: Arc::clone(&self.told),
            load: self.load.clone(),
            ..*self
        };
        payments.spawn(async move {
            sleep(wait).await;
            paying.pay(order_id).await;
        });
    }

    async fn pay(&self, order_id: String) {
        let answer = self.answer(&Ask::pay(&order_id)).await;
        let mut told = self.told.answers();
        match answer.status {
            StatusCode::OK => drop(told.paid.insert(order_id)),
            StatusCode::CONFLICT => drop(told.closed.insert(order_id)),
            _ => told.absurd.push(format!("the payment of order {order_id} was answered by {answer:?}")),
        }
    }
}
