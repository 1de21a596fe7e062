//! The cases. Each panics if the consumer breaks its rule.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uuid::Builder;

use super::ConsumerUnderTest;
use crate::message::MessageId;

type Handle = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;
type Records = Vec<(MessageId, String, String)>;

/// Enough for several partitions to have some.
const KEYS: usize = 8;
/// The numbers of the records that end a case, one of each key.
const LAST: usize = 900;
const POLL: Duration = Duration::from_millis(20);
/// How long a handler waits for another one that must not come.
const MEETING: Duration = Duration::from_millis(500);

/// Each message twice: the second copy changes nothing.
pub fn copies_have_one_effect(consumer: &impl ConsumerUnderTest) {
    let records = records(0..24);
    consumer.send(&[records.clone(), records].concat());
    let member = consumer.start(succeeding());
    finish(consumer);
    consumer.shut_down(member);
    assert_once(consumer, 24, "a copy had an effect, or a message had none");
}

/// Everything again, after all was processed and nothing acknowledged.
pub fn a_redelivery_after_a_crash_has_one_effect(consumer: &impl ConsumerUnderTest) {
    consumer.send(&records(0..24));
    let member = consumer.start(succeeding());
    wait_until(consumer, "24 effects", |effects| effects.len() >= 24);
    consumer.shut_down(member);
    consumer.forget_acknowledgements();
    let member = consumer.start(succeeding());
    finish(consumer);
    consumer.shut_down(member);
    assert_once(consumer, 24, "a record had an effect in two processes");
}

/// Copies under different keys, so that two members, or two workers of one, get them at the same time: the second waits for the first.
pub fn copies_at_the_same_time_have_one_effect(consumer: &impl ConsumerUnderTest) {
    const COPY: usize = KEYS;
    let meeting = Arc::new((Mutex::new(0), Condvar::new()));
    let handle: Handle = Arc::new(move |text: &str| {
        if text == COPY.to_string() {
            let (present, changed) = &*meeting;
            let mut present = lock(present);
            *present += 1;
            changed.notify_all();
            drop(changed.wait_timeout_while(present, MEETING, |present| *present < 2));
        }
        Ok(())
    });
    let members = [0, 1].map(|_| consumer.start(Arc::clone(&handle)));
    consumer.send(&records(0..KEYS));
    wait_until(consumer, "one effect of each key", |effects| effects.len() >= KEYS);
    let id = MessageId::new();
    let copies: Records = (0..KEYS).map(|number| (id, key(number), COPY.to_string())).collect();
    consumer.send(&copies);
    finish(consumer);
    members.into_iter().for_each(|member| consumer.shut_down(member));
    assert_once(consumer, KEYS + 1, "two that got one message at the same time both handled it");
}

/// Also where a record fails, and is tried again.
pub fn each_key_is_in_order(consumer: &impl ConsumerUnderTest) {
    const COUNT: usize = 6 * KEYS;
    consumer.send(&records(0..COUNT));
    let failed = Mutex::new(HashSet::new());
    let member = consumer.start(Arc::new(move |text: &str| {
        let is_third = text.parse().is_ok_and(|number: usize| number / KEYS == 2);
        if is_third && lock(&failed).insert(text.to_owned()) { Err("not yet".to_owned()) } else { Ok(()) }
    }));
    wait_until(consumer, "all effects", |effects| effects.len() >= COUNT);
    finish(consumer);
    consumer.shut_down(member);
    let mut of_keys: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in consumer.effects().iter().filter_map(|text| text.parse::<usize>().ok()) {
        of_keys.entry(number % KEYS).or_default().push(number);
    }
    for (key, numbers) in of_keys {
        assert!(numbers.is_sorted(), "the records of a key were not handled in order: key {key}: {numbers:?}");
    }
    assert_once(consumer, COUNT, "a record that failed once, or one behind it");
}

/// Neither what it wrote nor the claim: the next attempt handles the message.
pub fn a_failed_handler_leaves_nothing(consumer: &impl ConsumerUnderTest) {
    consumer.send(&records(0..1));
    let failures_left = Arc::new(Mutex::new(2));
    let of_handler = Arc::clone(&failures_left);
    let member = consumer.start(Arc::new(move |text: &str| {
        let mut left = lock(&of_handler);
        if text != "0" || *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err("not yet".to_owned())
    }));
    finish(consumer);
    consumer.shut_down(member);
    assert_once(consumer, 1, "the claim of a failed handler was kept, or what it wrote");
    assert_eq!(*lock(&failures_left), 0, "the error of a failed handler was ignored, and what it wrote was kept");
}

/// A message from before what the inbox keeps has no effect, and what follows of its key has.
pub fn what_is_too_old_is_refused(consumer: &impl ConsumerUnderTest) {
    consumer.prune();
    let random: [u8; 10] = *MessageId::new().as_uuid().as_bytes().last_chunk().expect("a UUID has 16 bytes");
    let of_1970 = MessageId::from(Builder::from_unix_timestamp_millis(1, &random).into_uuid());
    consumer.send(&[(of_1970, key(0), "0".to_owned())]);
    let member = consumer.start(succeeding());
    finish(consumer);
    consumer.shut_down(member);
    assert_once(consumer, 0, "a message was handled that the inbox refuses as too old");
}

/// The handler that runs then fails: the next member processes its record, and all others.
pub fn a_shutdown_loses_nothing(consumer: &impl ConsumerUnderTest) {
    const COUNT: usize = 4 * KEYS;
    consumer.send(&records(0..COUNT));
    // Whether the first handler runs, and whether it may end.
    let gate = Arc::new((Mutex::new((false, false)), Condvar::new()));
    let (of_handler, max_wait) = (Arc::clone(&gate), consumer.max_wait());
    let member = consumer.start(Arc::new(move |_: &str| {
        let (state, changed) = &*of_handler;
        let mut state = lock(state);
        if state.0 {
            return Ok(());
        }
        state.0 = true;
        changed.notify_all();
        drop(changed.wait_timeout_while(state, max_wait, |(_, may_end)| !*may_end));
        Err("the process ends".to_owned())
    }));
    let (state, changed) = &*gate;
    let waited = changed.wait_timeout_while(lock(state), max_wait, |(runs, _)| !*runs);
    let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    assert!(!timeout.timed_out(), "no handler ran within {max_wait:?}");
    thread::scope(|scope| {
        let ending = scope.spawn(|| consumer.shut_down(member));
        state.1 = true;
        drop(state);
        changed.notify_all();
        assert!(ending.join().is_ok(), "the shutdown panicked");
    });
    let member = consumer.start(succeeding());
    finish(consumer);
    consumer.shut_down(member);
    assert_once(consumer, COUNT, "a record was acknowledged before it was processed, or processed again");
}

fn key(number: usize) -> String {
    format!("k{}", number % KEYS)
}

/// New messages, each with its number as the payload.
fn records(numbers: std::ops::Range<usize>) -> Records {
    numbers.map(|number| (MessageId::new(), key(number), number.to_string())).collect()
}

fn succeeding() -> Handle {
    Arc::new(|_: &str| Ok(()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_until(consumer: &impl ConsumerUnderTest, what: &str, is_so: impl Fn(&[String]) -> bool) {
    let end = Instant::now() + consumer.max_wait();
    loop {
        let effects = consumer.effects();
        if is_so(&effects) {
            return;
        }
        assert!(Instant::now() < end, "not within {:?}: {what}; there are {effects:?}", consumer.max_wait());
        thread::park_timeout(POLL);
    }
}

/// Sends a last record of each key, and waits for their effects: then what came before is done, too.
fn finish(consumer: &impl ConsumerUnderTest) {
    // A multiple of the keys' count, so that a number still says its key.
    let first = LAST.next_multiple_of(KEYS);
    consumer.send(&records(first..first + KEYS));
    let is_last = |text: &&String| text.parse().is_ok_and(|number: usize| number >= first);
    let all = |effects: &[String]| effects.iter().filter(is_last).collect::<HashSet<_>>().len() == KEYS;
    wait_until(consumer, "the last record of each key has its effect", all);
}

/// Checks that each number below `count`, and each last one, has one effect, and nothing else has any.
fn assert_once(consumer: &impl ConsumerUnderTest, count: usize, broken: &str) {
    let first = LAST.next_multiple_of(KEYS);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for number in (0..count).chain(first..first + KEYS) {
        counts.insert(number.to_string(), 0);
    }
    for text in consumer.effects() {
        *counts.entry(text).or_default() += 1;
    }
    counts.retain(|number, effects| *effects != usize::from(is_expected(number, count, first)));
    assert!(counts.is_empty(), "{broken}: not one effect each, but {counts:?}");
}

fn is_expected(number: &str, count: usize, first_of_last: usize) -> bool {
    number.parse().is_ok_and(|number: usize| number < count || number >= first_of_last)
}
