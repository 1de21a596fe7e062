//! Tells the application which messages were dead-lettered. The callbacks run on a thread of their own and are fed from
//! a bounded queue, so a slow callback delays nothing else.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::engine::stop::{Stage, Stop};
use crate::clock::{BootInstant, Clock};
use crate::events::log_event;
use crate::limits::{DEAD_LETTER_CALLBACKS_BATCH_MAX, DEAD_LETTER_CALLBACKS_QUEUE_MAX};
use crate::message::MessageId;
use crate::metrics;
use crate::receipts::Waiters;
use crate::store::DeadLetterReason;

/// A message that a relay dead-lettered. Passed to [`RelayBuilder::on_dead_letter`](super::RelayBuilder::on_dead_letter) and
/// [`RelayBuilder::dead_letter_alert`](super::RelayBuilder::dead_letter_alert).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterEvent {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its message id.
    pub message_id: MessageId,
    /// The message's kind; empty if the row could not be decoded.
    pub kind: String,
    /// Why it was dead-lettered: the [`DeadLetterReason`](crate::admin::DeadLetterReason), a colon, and the last error.
    pub reason: String,
    /// How often it was tried, including the last time; 0 if the row could not be decoded.
    pub attempts: u32,
}

impl DeadLetterEvent {
    /// Why it was dead-lettered, without the error.
    pub fn typed_reason(&self) -> DeadLetterReason {
        DeadLetterReason::of(&self.reason)
    }
}

type Callback = Arc<dyn Fn(&DeadLetterEvent) + Send + Sync>;

/// The application's callbacks.
#[derive(Default, Clone)]
pub(crate) struct Callbacks {
    pub(crate) on_dead_letter: Option<Callback>,
    pub(crate) alert: Option<AlertThreshold>,
}

/// When the application is alerted.
#[derive(Clone)]
pub(crate) struct AlertThreshold {
    pub(crate) letters_max: u16,
    pub(crate) window_duration: Duration,
    pub(crate) on_alert: Callback,
}

/// The queue between the engines and the callbacks.
#[derive(Debug)]
pub(crate) struct DeadLetterCallbacks {
    callbacks: Callbacks,
    waiters: Arc<Waiters>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    arrived: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Notification>,
    is_calling: bool,
    /// How many notifications wait for their call, in the queue or behind the one that is being called.
    uncalled: usize,
    /// Whether no call may begin any more.
    has_ended: bool,
    alert_window: AlertWindow,
}

#[derive(Debug)]
enum Notification {
    Letter(DeadLetterEvent),
    /// With the message that exceeded the threshold.
    Alert(DeadLetterEvent),
}

impl DeadLetterCallbacks {
    pub(crate) fn new(callbacks: Callbacks, clock: Arc<dyn Clock>, waiters: Arc<Waiters>) -> Self {
        Self { callbacks, waiters, clock, state: Mutex::default(), arrived: Notify::new(), emptied: Notify::new() }
    }

    /// Whether there are callbacks. Without any, the engine keeps no message details for them.
    pub(crate) fn has_callbacks(&self) -> bool {
        self.callbacks.on_dead_letter.is_some() || self.callbacks.alert.is_some()
    }

    /// Counts messages of a transport that were dead-lettered and queues them for the callbacks. Never waits.
    pub(crate) fn notify(&self, transport: &Arc<str>, letters: impl IntoIterator<Item = DeadLetterEvent>) {
        let letters = letters.into_iter().inspect(|letter| {
            count_dead_letter(letter, transport);
            self.waiters.dead(letter.message_id, &letter.reason);
        });
        if !self.has_callbacks() {
            return letters.for_each(drop);
        }
        let now = self.clock.now();
        let mut state = self.state();
        let mut lost = 0;
        for letter in letters {
            if let Some(threshold) = &self.callbacks.alert
                && state.alert_window.exceeds(threshold, now)
            {
                threshold.note(&letter);
                // Ahead of all letters and not counted against their bound: there is one alert per window.
                state.queue.push_front(Notification::Alert(letter.clone()));
                state.uncalled += 1;
            }
            if self.callbacks.on_dead_letter.is_some() {
                lost += state.push(Notification::Letter(letter));
            }
        }
        drop(state);
        ::metrics::counter!(metrics::DEAD_LETTER_CALLBACKS_LOST, "reason" => "queue_full").increment(lost);
        self.arrived.notify_one();
    }

    /// Waits until every callback has run. Cancel safe.
    pub(crate) async fn all_notified(&self) {
        loop {
            let emptied = self.emptied.notified();
            {
                let state = self.state();
                if state.queue.is_empty() && !state.is_calling {
                    return;
                }
            }
            emptied.await;
        }
    }

    /// Lets no further call begin. Returns how many notifications were not called.
    pub(crate) fn end(&self) -> usize {
        let mut state = self.state();
        state.has_ended = true;
        let lost = state.uncalled;
        drop(state);
        ::metrics::counter!(metrics::DEAD_LETTER_CALLBACKS_LOST, "reason" => "shutdown").increment(lost as u64);
        lost
    }

    /// Whether the next notification may be called.
    fn begin_call(&self) -> bool {
        let mut state = self.state();
        if !state.has_ended {
            state.uncalled -= 1;
        }
        !state.has_ended
    }

    fn take(&self) -> Vec<Notification> {
        let mut state = self.state();
        let count = state.queue.len().min(DEAD_LETTER_CALLBACKS_BATCH_MAX);
        state.is_calling = count > 0;
        let notifications = state.queue.drain(..count).collect();
        if !state.is_calling {
            drop(state);
            self.emptied.notify_waiters();
        }
        notifications
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Queues the notification, or drops it if the queue is full. Returns how many were dropped.
    fn push(&mut self, notification: Notification) -> u64 {
        let is_full = self.queue.len() >= DEAD_LETTER_CALLBACKS_QUEUE_MAX;
        if !is_full {
            self.queue.push_back(notification);
            self.uncalled += 1;
        }
        u64::from(is_full)
    }
}

/// Runs until the relay ends.
pub(crate) async fn run(callbacks: Arc<DeadLetterCallbacks>, stop: Arc<Stop>) {
    loop {
        let notifications = callbacks.take();
        if notifications.is_empty() {
            tokio::select! {
                () = callbacks.arrived.notified() => continue,
                () = stop.reached(Stage::Ending) => return,
            }
        }
        // Not on a runtime thread: a callback may write a file or call a pager.
        let (callbacks, ends) = (Arc::clone(&callbacks), Arc::clone(&stop));
        let call = move || {
            let in_time =
                notifications.iter().take_while(|_| !ends.has_reached(Stage::Ending) && callbacks.begin_call());
            in_time.filter(|notification| !callbacks.callbacks.call(notification)).count()
        };
        let panicked = spawn_blocking(call).await;
        let panicked = panicked.unwrap_or(0) as u64;
        ::metrics::counter!(metrics::DEAD_LETTER_CALLBACKS_LOST, "reason" => "panicked").increment(panicked);
    }
}

impl Callbacks {
    /// Runs the callbacks; `false` if one panicked.
    fn call(&self, notification: &Notification) -> bool {
        let called = catch_unwind(AssertUnwindSafe(|| match notification {
            Notification::Letter(letter) => self.on_dead_letter.iter().for_each(|callback| callback(letter)),
            Notification::Alert(last) => self.alert.iter().for_each(|threshold| (threshold.on_alert)(last)),
        }));
        if called.is_err() {
            log_event!(DEAD_LETTER_CALLBACK_PANICKED, ?notification);
        }
        called.is_ok()
    }
}

impl AlertThreshold {
    fn note(&self, last: &DeadLetterEvent) {
        let Self { letters_max, window_duration, .. } = *self;
        log_event!(DEAD_LETTER_ALERT, letters_max, ?window_duration, topic = &*last.topic, reason = last.reason);
        ::metrics::counter!(metrics::DEAD_LETTER_ALERTS).increment(1);
    }
}

/// When the last messages were dead-lettered: as many as exceed the threshold.
#[derive(Debug, Default)]
struct AlertWindow {
    at: VecDeque<BootInstant>,
    quiet_until: Option<BootInstant>,
}

impl AlertWindow {
    /// Notes one message. Returns whether to alert: once per window.
    fn exceeds(&mut self, threshold: &AlertThreshold, now: BootInstant) -> bool {
        let enough = usize::from(threshold.letters_max) + 1;
        self.at.push_back(now);
        if self.at.len() > enough {
            self.at.pop_front();
        }
        let first = self.at.front().filter(|_| self.at.len() == enough);
        let exceeds = first.is_some_and(|first| first.until(now) < threshold.window_duration);
        let alerts = exceeds && self.quiet_until.is_none_or(|until| now >= until);
        if alerts {
            self.quiet_until = Some(now + threshold.window_duration);
        }
        alerts
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alert = self.alert.as_ref().map(|of| (of.letters_max, of.window_duration));
        f.debug_struct("Callbacks")
            .field("on_dead_letter", &self.on_dead_letter.is_some())
            .field("alert", &alert)
            .finish()
    }
}

fn count_dead_letter(letter: &DeadLetterEvent, transport: &Arc<str>) {
    let (topic, transport) = (Arc::clone(&letter.topic), Arc::clone(transport));
    let reason = letter.typed_reason().to_string();
    ::metrics::counter!(metrics::DEAD_LETTERED, "topic" => topic, "transport" => transport, "reason" => reason)
        .increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_queue_is_bounded_and_each_batch_takes_a_few_of_it() {
        let callback: Callback = Arc::new(|_| ());
        let callbacks = DeadLetterCallbacks::new(
            Callbacks { on_dead_letter: Some(callback), alert: None },
            Arc::new(SystemClock),
            Arc::default(),
        );
        let message_id = MessageId::new();
        let letter = || DeadLetterEvent {
            topic: "orders".into(),
            message_id,
            kind: String::new(),
            reason: String::new(),
            attempts: 1,
        };
        callbacks.notify(&"default".into(), (0..DEAD_LETTER_CALLBACKS_QUEUE_MAX * 2).map(|_| letter()));
        let batches: Vec<usize> =
            std::iter::from_fn(|| Some(callbacks.take().len()).filter(|count| *count > 0)).collect();
        assert_eq!(batches.iter().sum::<usize>(), DEAD_LETTER_CALLBACKS_QUEUE_MAX);
        assert!(batches.iter().all(|count| *count <= DEAD_LETTER_CALLBACKS_BATCH_MAX), "{batches:?}");
    }

    #[test]
    fn an_alert_comes_once_for_each_window_and_only_for_more_than_it_allows() {
        let threshold =
            AlertThreshold { letters_max: 2, window_duration: Duration::from_secs(60), on_alert: Arc::new(|_| ()) };
        let (mut window, began) = (AlertWindow::default(), SystemClock.now());
        let mut exceeds = |second| window.exceeds(&threshold, began + Duration::from_secs(second));
        assert_eq!([0, 59, 61].map(&mut exceeds), [false; 3], "never three within a minute");
        assert_eq!(
            [62, 63, 100].map(&mut exceeds),
            [true, false, false],
            "59, 61 and 62 exceed it; then it has alerted already"
        );
        assert_eq!([121, 122, 123].map(&mut exceeds), [false, true, false], "a minute later it goes on");
        assert_eq!([400, 401].map(&mut exceeds), [false; 2]);
    }
}
