//! The loop: reads records, opens partitions, commits offsets.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::engine::{Commit, Opening};
use super::lag::{Lag, lag_of};
use super::lookups::{Answer, Lookups, Question};
use super::opening::Openings;
use super::record::PartitionId;
use super::report;
use super::shared::Shared;
use super::source::{Position, Source, SourceError};
use super::status::ConsumerReport;
use super::worker::Opened;
use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::limits::{
    CONSUMER_BUSY_POLL_TIMEOUT, CONSUMER_POLL_RECORDS_MAX, CONSUMER_POLL_TIMEOUT, CONSUMER_PRUNE_INTERVAL,
    CONSUMER_RELEASED_POLL_INTERVAL,
};
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::StoreError;

pub(crate) struct Runner {
    shared: Arc<Shared>,
    source: Box<dyn Source>,
    lookups: Lookups,
    opening: Openings,
    commits_at: Instant,
    released_at: Instant,
    /// How many replays had ended when released records were last asked for.
    replays_ended: u64,
    prune_at: Instant,
    lag: Lag,
    failures: Repeated,
}

impl Runner {
    pub(crate) fn new(shared: Arc<Shared>, source: Box<dyn Source>, lookups: Lookups) -> Self {
        let now = Instant::now();
        let lag = Lag::new(Arc::clone(&shared.options), now);
        Self {
            shared,
            source,
            lookups,
            opening: Openings::new(),
            commits_at: now,
            released_at: now,
            replays_ended: 0,
            prune_at: now,
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
            self.take_answer();
            self.ping();
            self.open();
            self.mark();
            self.regulate();
            self.commit();
            self.look_for_released();
            self.prune();
            self.measure_lag();
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
        let is_busy =
            !self.opening.is_empty() || self.shared.with(|engine| engine.is_any_paused() || engine.has_groups());
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
        self.opening.retain(|id| self.source.is_assigned(id));
        for id in self.source.take_assigned() {
            self.opening.add(id, Instant::now());
        }
    }

    /// Begins to read assigned partitions, where their last owner stopped.
    fn open(&mut self) {
        if self.source.take_out_of_range() {
            self.shared.change(super::engine::Engine::reopen_all);
        }
        for id in self.shared.with(super::engine::Engine::take_reopenings) {
            report::reopening(&self.shared.options, &id);
            if let Err(error) = self.source.stop(&id) {
                self.warn(&error);
            }
            self.opening.add(id, Instant::now());
        }
        if !self.lookups.is_free() || self.shared.with(|engine| engine.is_database_away()) {
            return;
        }
        let Some((id, number)) = self.opening.due(Instant::now()) else { return };
        match self.source.position(&id) {
            Ok(position) => {
                self.lookups.ask(Question::Open { id, number, position }, Instant::now());
                self.opening.asked(number);
            }
            Err(error) => self.not_opened(&id, number, &error),
        }
    }

    fn not_opened(&mut self, id: &PartitionId, number: u64, error: &SourceError) {
        let consumer = &*self.shared.options.consumer;
        warn_once_a_minute!(PARTITION_NOT_OPENED, self.failures, error, consumer, partition = %id);
        self.opening.failed(number, Instant::now());
    }

    /// Takes what the database answered.
    fn take_answer(&mut self) {
        let Some(answer) = self.lookups.answer(Instant::now()) else { return };
        match answer {
            // It was revoked meanwhile.
            Answer::Opened { number, .. } if !self.opening.has(number) => {}
            Answer::Opened { id, number, position, opened } => {
                let started = opened.map_err(|error| self.refused(&error));
                match started.and_then(|opened| self.start(&id, &position, opened)) {
                    Ok(()) => {
                        self.opening.done(number);
                        if self.opening.is_empty() {
                            self.lag.measure_now();
                        }
                    }
                    Err(error) => self.not_opened(&id, number, &error),
                }
            }
            // Asked again soon: otherwise a release that a replay has taken would count twice.
            Answer::Released(Ok(_)) if self.shared.with(|engine| engine.replays_ended()) != self.replays_ended => {}
            Answer::Released(Ok(released)) => {
                for (id, replays) in released.into_iter().filter(|(_, replays)| !replays.is_empty()) {
                    self.shared.change(|engine| engine.replay(&id, replays));
                }
            }
            Answer::Released(Err(error)) => {
                let error = self.refused(&error);
                self.warn(&error);
            }
            Answer::Pruned(Ok(has_more)) => {
                if has_more {
                    self.prune_at = Instant::now();
                }
            }
            Answer::Pruned(Err(error)) => {
                let error = self.refused(&error);
                self.warn(&error);
            }
            Answer::Pinged(Ok(())) => self.shared.database_is_back(),
            Answer::Pinged(Err(_)) => self.shared.with(|engine| engine.database_is_still_away(Instant::now())),
        }
    }

    /// Notes an outage, if the error is one.
    fn refused(&self, error: &StoreError) -> SourceError {
        let text = error.to_string();
        if matches!(error, StoreError::Unreachable(_) | StoreError::Refused(_)) {
            self.shared.database_is_away(&text);
        }
        SourceError(text)
    }

    /// Reads a partition from where the database or the broker says.
    fn start(&mut self, id: &PartitionId, position: &Position, opened: Opened) -> Result<(), SourceError> {
        let Opened { start, gone, parked_keys, has_parked_alone } = opened;
        if let Some(offset) = gone {
            report::gone(id, offset, position.first, position.end);
        }
        let note = position.note_from(start);
        report::opened(&self.shared.options, id, start, &note);
        let opening = Opening { start, note, parked_keys, has_parked_alone };
        self.shared.with(|engine| engine.open(id.clone(), opening, Instant::now()));
        // Before a record runs, so that a process that is killed by the first one leaves a trace.
        let begin: Vec<Commit> = self.shared.with(|engine| engine.commits_of(id));
        let committed = self.source.commit_and_wait(&begin);
        // It may have been revoked meanwhile.
        let is_open = self.shared.with(|engine| engine.is_open(id)) && self.source.is_assigned(id);
        let started = committed.and_then(|()| if is_open { self.source.start(id, start) } else { Ok(()) });
        if started.is_err() || !is_open {
            // Nobody has a record of it.
            self.shared.with(|engine| engine.remove(std::slice::from_ref(id)));
            self.source.stop(id)?;
        }
        started
    }

    /// Asks whether the database is back, if it is away.
    fn ping(&mut self) {
        if self.lookups.is_free() && self.shared.with(|engine| engine.is_ping_due(Instant::now())) {
            self.lookups.ask(Question::Ping, Instant::now());
        }
    }

    /// Tells the broker which records run next, apart from all others.
    fn mark(&mut self) {
        let Some(mark) = self.shared.with(super::engine::Engine::take_mark) else { return };
        match self.source.commit_and_wait(&mark.commits) {
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
        let (had_groups, commits) = self.shared.with(|engine| (engine.has_groups(), engine.commits(Instant::now())));
        if had_groups {
            // The trial may be over, and all may run.
            self.shared.change(|_| ());
        }
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
        if Instant::now() < self.released_at || !self.lookups.is_free() {
            return;
        }
        self.released_at = Instant::now() + CONSUMER_RELEASED_POLL_INTERVAL;
        let (parked, ended) = self.shared.with(|engine| {
            let parked = if engine.is_database_away() { Vec::new() } else { engine.with_parked() };
            (parked, engine.replays_ended())
        });
        if !parked.is_empty() {
            self.replays_ended = ended;
            self.lookups.ask(Question::Released(parked), Instant::now());
        }
    }

    fn measure_lag(&mut self) {
        if self.lag.is_due(Instant::now()) {
            // As often as that: nobody says that the broker refused an offset, so all are committed again now and then.
            self.shared.with(super::engine::Engine::commit_again);
            let Self { lag, shared, source, .. } = self;
            if let Err(error) = lag.measure(shared, |done| lag_of(done, &mut **source)) {
                self.warn(&error);
            }
        }
    }

    /// Removes old entries of the inbox now and then.
    fn prune(&mut self) {
        let options = &self.shared.options;
        let is_due = options.prunes && options.progress.has_inbox() && Instant::now() >= self.prune_at;
        // Partitions that wait to be opened come first.
        if !is_due || !self.lookups.is_free() || !self.opening.is_empty() {
            return;
        }
        self.prune_at = Instant::now() + CONSUMER_PRUNE_INTERVAL;
        if !self.shared.with(|engine| engine.is_database_away()) {
            self.lookups.ask(Question::Prune, Instant::now());
        }
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
