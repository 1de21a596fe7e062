//! Tells the application of messages that were given up. On a thread of its own and from a bounded queue: what a listener does, and
//! how long it takes, holds nothing up.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::stop::{Stage, Stop};
use crate::clock::{BootInstant, Clock};
use crate::limits::{DEAD_LETTER_QUEUE_MAX, DEAD_LETTER_TURN_MAX};
use crate::message::MessageId;
use crate::metrics;
use crate::store::dead_letter::reason_word;

/// A message that a relay gave up. Told by [`RelayBuilder::on_dead_letter`](super::RelayBuilder::on_dead_letter).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenUp {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its message id.
    pub message_id: MessageId,
    /// What happened; empty where the row could not be decoded.
    pub kind: String,
    /// Why it was given up: a word (`refused`, `attempts`, `poisoned`), a colon, and the last error.
    pub reason: String,
    /// How often it was tried, the last time included; 0 where the row could not be decoded.
    pub attempts: u32,
}

/// More messages were given up within a window than a threshold allows. Told by
/// [`RelayBuilder::dead_letter_alert`](super::RelayBuilder::dead_letter_alert).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterAlert {
    /// The threshold.
    pub letters_max: u16,
    /// The window.
    pub window_duration: Duration,
    /// The message with which it was passed.
    pub last: GivenUp,
}

type Listener<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// Who is to be told of what.
#[derive(Default, Clone)]
pub(crate) struct Listeners {
    pub(crate) on_letter: Option<Listener<GivenUp>>,
    pub(crate) alert: Option<Threshold>,
}

/// When somebody is to be alerted.
#[derive(Clone)]
pub(crate) struct Threshold {
    pub(crate) letters_max: u16,
    pub(crate) window_duration: Duration,
    pub(crate) on_alert: Listener<DeadLetterAlert>,
}

/// The queue between the engines and the listeners.
#[derive(Debug)]
pub(crate) struct Teller {
    listeners: Listeners,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    arrived: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<News>,
    is_telling: bool,
    recent: Recent,
}

#[derive(Debug)]
enum News {
    Letter(GivenUp),
    Alert(DeadLetterAlert),
}

impl Teller {
    pub(crate) fn new(listeners: Listeners, clock: Arc<dyn Clock>) -> Self {
        Self { listeners, clock, state: Mutex::default(), arrived: Notify::new(), emptied: Notify::new() }
    }

    /// Whether anybody listens: otherwise nothing needs to be known of a message for it.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.on_letter.is_some() || self.listeners.alert.is_some()
    }

    /// Messages were given up, and are among the dead letters. Counts them. Never waits.
    pub(crate) fn tell(&self, letters: impl IntoIterator<Item = GivenUp>) {
        let letters = letters.into_iter().inspect(count);
        if !self.has_listeners() {
            return letters.for_each(drop);
        }
        let now = self.clock.now();
        let mut state = self.state();
        let mut lost = 0;
        for letter in letters {
            if let Some(threshold) = &self.listeners.alert
                && state.recent.passes(threshold, now)
            {
                // Before all letters and outside of their bound: there is one in a window.
                state.queue.push_front(News::Alert(threshold.alert(letter.clone())));
            }
            if self.listeners.on_letter.is_some() {
                lost += state.push(News::Letter(letter));
            }
        }
        drop(state);
        ::metrics::counter!(metrics::DEAD_LETTERS_UNTOLD, "reason" => "queue_full").increment(lost);
        self.arrived.notify_one();
    }

    /// Waits until everything is told. Cancel safe.
    pub(crate) async fn all_told(&self) {
        loop {
            let emptied = self.emptied.notified();
            {
                let state = self.state();
                if state.queue.is_empty() && !state.is_telling {
                    return;
                }
            }
            emptied.await;
        }
    }

    fn take(&self) -> Vec<News> {
        let mut state = self.state();
        let count = state.queue.len().min(DEAD_LETTER_TURN_MAX);
        state.is_telling = count > 0;
        let news = state.queue.drain(..count).collect();
        if !state.is_telling {
            drop(state);
            self.emptied.notify_waiters();
        }
        news
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns how many were lost by it.
    fn push(&mut self, news: News) -> u64 {
        let is_full = self.queue.len() >= DEAD_LETTER_QUEUE_MAX;
        if !is_full {
            self.queue.push_back(news);
        }
        u64::from(is_full)
    }
}

/// Runs until the relay ends.
pub(crate) async fn run(teller: Arc<Teller>, stop: Arc<Stop>) {
    loop {
        let news = teller.take();
        if news.is_empty() {
            tokio::select! {
                () = teller.arrived.notified() => continue,
                () = stop.reached(Stage::Ending) => return,
            }
        }
        let listeners = teller.listeners.clone();
        // Not on a thread of the runtime: a listener may write a file, or wait for a pager.
        let ends = Arc::clone(&stop);
        let tell = move || {
            let in_time = news.iter().take_while(|_| !ends.has_reached(Stage::Ending));
            in_time.filter(|news| !listeners.hear(news)).count()
        };
        let told = spawn_blocking(tell).await;
        let panicked = told.unwrap_or(0) as u64;
        ::metrics::counter!(metrics::DEAD_LETTERS_UNTOLD, "reason" => "panicked").increment(panicked);
    }
}

impl Listeners {
    /// Calls who wants to hear it; `false` where that panicked.
    fn hear(&self, news: &News) -> bool {
        let heard = catch_unwind(AssertUnwindSafe(|| match news {
            News::Letter(letter) => self.on_letter.iter().for_each(|listener| listener(letter)),
            News::Alert(alert) => self.alert.iter().for_each(|threshold| (threshold.on_alert)(alert)),
        }));
        if heard.is_err() {
            tracing::error!(?news, "a listener to dead letters panicked: it goes on with the next");
        }
        heard.is_ok()
    }
}

impl Threshold {
    fn alert(&self, last: GivenUp) -> DeadLetterAlert {
        let Self { letters_max, window_duration, .. } = *self;
        tracing::error!(
            letters_max,
            ?window_duration,
            topic = &*last.topic,
            reason = last.reason,
            "more messages are given up than the alert allows"
        );
        ::metrics::counter!(metrics::DEAD_LETTER_ALERTS).increment(1);
        DeadLetterAlert { letters_max, window_duration, last }
    }
}

/// When the last messages were given up: as many as pass the threshold.
#[derive(Debug, Default)]
struct Recent {
    at: VecDeque<BootInstant>,
    quiet_until: Option<BootInstant>,
}

impl Recent {
    /// Notes one, and says whether somebody is to be alerted: once for each window.
    fn passes(&mut self, threshold: &Threshold, now: BootInstant) -> bool {
        let enough = usize::from(threshold.letters_max) + 1;
        self.at.push_back(now);
        if self.at.len() > enough {
            self.at.pop_front();
        }
        let first = self.at.front().filter(|_| self.at.len() == enough);
        let passes = first.is_some_and(|first| first.until(now) < threshold.window_duration);
        let alerts = passes && self.quiet_until.is_none_or(|until| now >= until);
        if alerts {
            self.quiet_until = Some(now + threshold.window_duration);
        }
        alerts
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alert = self.alert.as_ref().map(|of| (of.letters_max, of.window_duration));
        f.debug_struct("Listeners").field("on_letter", &self.on_letter.is_some()).field("alert", &alert).finish()
    }
}

fn count(letter: &GivenUp) {
    let reason = reason_word(&letter.reason).to_owned();
    ::metrics::counter!(metrics::GIVEN_UP, "topic" => Arc::clone(&letter.topic), "reason" => reason).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn no_more_letters_wait_than_may_and_each_turn_takes_a_few_of_them() {
        let hears: Listener<GivenUp> = Arc::new(|_| ());
        let teller = Teller::new(Listeners { on_letter: Some(hears), alert: None }, Arc::new(SystemClock));
        let message_id = MessageId::new();
        let letter =
            || GivenUp { topic: "orders".into(), message_id, kind: String::new(), reason: String::new(), attempts: 1 };
        teller.tell((0..DEAD_LETTER_QUEUE_MAX * 2).map(|_| letter()));
        let turns: Vec<usize> = std::iter::from_fn(|| Some(teller.take().len()).filter(|told| *told > 0)).collect();
        assert_eq!(turns.iter().sum::<usize>(), DEAD_LETTER_QUEUE_MAX);
        assert!(turns.iter().all(|told| *told <= DEAD_LETTER_TURN_MAX), "{turns:?}");
    }

    #[test]
    fn an_alert_comes_once_for_each_window_and_only_for_more_than_it_allows() {
        let threshold =
            Threshold { letters_max: 2, window_duration: Duration::from_secs(60), on_alert: Arc::new(|_| ()) };
        let (mut recent, began) = (Recent::default(), SystemClock.now());
        let mut passes = |second| recent.passes(&threshold, began + Duration::from_secs(second));
        assert_eq!([0, 59, 61].map(&mut passes), [false; 3], "never three within a minute");
        assert_eq!([62, 63, 100].map(&mut passes), [true, false, false], "59, 61 and 62, and told already");
        assert_eq!([121, 122, 123].map(&mut passes), [false, true, false], "a minute later it goes on");
        assert_eq!([400, 401].map(&mut passes), [false; 2]);
    }
}
