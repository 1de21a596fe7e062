//! The loop: reads records, opens partitions, commits offsets.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::engine::{Commit, Opening};
use super::lag::Lag;
use super::record::PartitionId;
use super::report;
use super::shared::Shared;
use super::source::{Source, SourceError};
use super::status::ConsumerReport;
use super::worker::{Opened, Worker};
use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::limits::{
    CONSUMER_BUSY_POLL_TIMEOUT, CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_OUTAGE_WAIT_MIN, CONSUMER_POLL_RECORDS_MAX,
    CONSUMER_POLL_TIMEOUT, CONSUMER_RELEASED_POLL_INTERVAL,
};
use crate::repeated::{Repeated, warn_once_a_minute};

pub(crate) struct Runner {
    shared: Arc<Shared>,
    source: Box<dyn Source>,
    worker: Box<dyn Worker>,
    /// Assigned partitions that are not read yet, and when to try next.
    opening: Vec<(PartitionId, Instant)>,
    opening_wait: Duration,
    commits_at: Instant,
    released_at: Instant,
    lag: Lag,
    failures: Repeated,
}

impl Runner {
    pub(crate) fn new(shared: Arc<Shared>, source: Box<dyn Source>, worker: Box<dyn Worker>) -> Self {
        let now = Instant::now();
        let lag = Lag::new(Arc::clone(&shared.options), now);
        Self {
            shared,
            source,
            worker,
            opening: Vec::new(),
            opening_wait: CONSUMER_OUTAGE_WAIT_MIN,
            commits_at: now,
            released_at: now,
            lag,
            failures: Repeated::default(),
        }
    }

    /// Runs until a shutdown, and reports how it ended.
    pub(crate) fn run(mut self, report: &Sender<ConsumerReport>) {
        let grace = loop {
            if let Some(grace) = self.shared.is_stopping() {
                break grace;
            }
            self.read();
            self.open();
            self.mark();
            self.regulate();
            self.commit();
            self.look_for_released();
            self.lag.measure(&self.shared, &mut *self.source);
        };
        let ended = self.end(grace);
        // Leaves the group, which may take a while if the broker is away. The client gives up by itself.
        drop(self.source);
        log_event!(CONSUMER_ENDED, consumer = &*self.shared.options.consumer, report = ?ended);
        // Whoever asked for the shutdown may have stopped waiting.
        let _ = report.send(ended);
    }

    /// Takes records that the client has, and waits for one if it has none.
    fn read(&mut self) {
        let is_busy = !self.opening.is_empty()
            || self.shared.with(|engine| engine.is_any_paused() || engine.wanted_mark().is_some());
        let mut within = if is_busy { CONSUMER_BUSY_POLL_TIMEOUT } else { CONSUMER_POLL_TIMEOUT };
        for _ in 0..CONSUMER_POLL_RECORDS_MAX {
            match self.source.poll(within) {
                Ok(Some(record)) => {
                    if self.shared.add(record) {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.warn(&error);
                    break;
                }
            }
            within = Duration::ZERO;
        }
        let now = Instant::now();
        self.opening.retain(|(id, _)| self.source.is_assigned(id));
        for id in self.source.take_assigned() {
            // It may have been revoked and assigned again meanwhile.
            if self.opening.iter().all(|(other, _)| *other != id) {
                self.opening.push((id, now));
            }
        }
    }

    /// Begins to read assigned partitions, where their last owner stopped.
    fn open(&mut self) {
        for id in self.shared.with(super::engine::Engine::take_reopenings) {
            report::reopening(&self.shared.options, &id);
            if let Err(error) = self.source.stop(&id) {
                self.warn(&error);
            }
            self.opening.push((id, Instant::now()));
        }
        let now = Instant::now();
        let due: Vec<PartitionId> =
            self.opening.iter().filter(|(_, at)| *at <= now).map(|(id, _)| id.clone()).collect();
        for id in due {
            let opened = self.open_one(&id);
            match opened {
                Ok(()) => {
                    self.opening.retain(|(other, _)| *other != id);
                    self.opening_wait = CONSUMER_OUTAGE_WAIT_MIN;
                }
                Err(error) => {
                    let consumer = &*self.shared.options.consumer;
                    warn_once_a_minute!(PARTITION_NOT_OPENED, self.failures, error, consumer, partition = %id);
                    self.opening_wait = (self.opening_wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
                    let at = Instant::now() + self.opening_wait;
                    self.opening.iter_mut().filter(|(other, _)| *other == id).for_each(|(_, when)| *when = at);
                    return;
                }
            }
        }
    }

    fn open_one(&mut self, id: &PartitionId) -> Result<(), SourceError> {
        let position = self.source.position(id)?;
        let opened = self.worker.open(id, position.start).map_err(|error| SourceError(error.to_string()))?;
        // What was noted is about the record where the broker stands.
        let note = if opened.start == position.start { position.note } else { Default::default() };
        report::opened(&self.shared.options, id, opened.start, &note);
        let Opened { start, parked_keys, has_dead_letters } = opened;
        let opening = Opening { start, note, parked_keys, has_dead_letters };
        self.shared.with(|engine| engine.open(id.clone(), opening));
        // Before a record runs, so that a process that is killed by the first one leaves a trace.
        let begin: Vec<Commit> = self.shared.with(|engine| engine.commits_of(id));
        let committed = self.source.commit_and_wait(&begin);
        // It may have been revoked meanwhile.
        let started =
            committed.and_then(|()| if self.source.is_assigned(id) { self.source.start(id, start) } else { Ok(()) });
        if started.is_err() || !self.source.is_assigned(id) {
            // Nobody has a record of it.
            self.shared.with(|engine| engine.remove(std::slice::from_ref(id)));
            self.source.stop(id)?;
        }
        started
    }

    /// Tells the broker which record runs alone next.
    fn mark(&mut self) {
        let Some(mark) = self.shared.with(|engine| engine.wanted_mark()) else { return };
        match self.source.commit_and_wait(std::slice::from_ref(&mark.commit)) {
            Ok(()) => self.shared.change(|engine| engine.marked(&mark)),
            Err(error) => self.warn(&error),
        }
    }

    /// Pauses partitions with much in memory, and resumes the others.
    fn regulate(&mut self) {
        let flow = self.shared.with(super::engine::Engine::flow);
        if !flow.pause.is_empty()
            && let Err(error) = self.source.pause(&flow.pause)
        {
            self.warn(&error);
        }
        if !flow.resume.is_empty()
            && let Err(error) = self.source.resume(&flow.resume)
        {
            self.warn(&error);
        }
    }

    fn commit(&mut self) {
        if Instant::now() < self.commits_at {
            return;
        }
        self.commits_at = Instant::now() + self.shared.options.commit_interval;
        let commits = self.shared.with(super::engine::Engine::commits);
        if commits.is_empty() {
            return;
        }
        crash_point!(CONSUMER_COMMITTING_OFFSETS);
        if let Err(error) = self.source.commit(&commits) {
            self.warn(&error);
            self.shared.with(super::engine::Engine::commit_again);
        }
        crash_point!(CONSUMER_OFFSETS_COMMITTED);
    }

    /// Looks for parked records that somebody has released, if this process knows any parked ones.
    fn look_for_released(&mut self) {
        if Instant::now() < self.released_at {
            return;
        }
        self.released_at = Instant::now() + CONSUMER_RELEASED_POLL_INTERVAL;
        if self.shared.with(|engine| engine.is_database_away()) {
            return;
        }
        for id in self.shared.with(|engine| engine.with_parked()) {
            match self.worker.released(&id) {
                Ok(replays) if replays.is_empty() => {}
                Ok(replays) => self.shared.change(|engine| engine.replay(&id, replays)),
                Err(error) => {
                    self.warn(&SourceError(error.to_string()));
                    return;
                }
            }
        }
        self.worker.rest();
    }

    /// Ends the work within the grace, and commits.
    fn end(&mut self, grace: Duration) -> ConsumerReport {
        let ids = self.shared.with(|engine| engine.ids());
        let is_quiet = self.shared.drain(&ids, grace);
        let (unprocessed, running) = self.shared.with(|engine| (engine.rows(), engine.running()));
        let commits = self.shared.with(|engine| engine.remove(&ids));
        let uncommitted = match self.source.commit_and_wait(&commits) {
            Ok(()) => 0,
            Err(error) => {
                self.warn(&error);
                commits.len()
            }
        };
        ConsumerReport { unprocessed, running, uncommitted, in_time: is_quiet }
    }

    fn warn(&self, error: &SourceError) {
        let consumer = &*self.shared.options.consumer;
        warn_once_a_minute!(CONSUMER_TROUBLE, self.failures, error, consumer);
    }
}
