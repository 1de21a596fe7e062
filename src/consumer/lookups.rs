//! What the loop asks of the database, on a thread of its own: a database that does not answer must not keep the loop from its broker.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Instant;

use super::engine::{QueueKey, Replay};
use super::record::PartitionId;
use super::source::Position;
use super::worker::{MakeWorker, Opened, Worker};
use crate::limits::CONSUMER_LOOKUP_TIMEOUT;
use crate::store::StoreError;

#[derive(Debug, Clone)]
pub(crate) enum Question {
    /// What the database knows of a partition that is to be read. The number tells assignments apart.
    Open { id: PartitionId, number: u64, position: Position },
    /// Which parked records of these partitions are released.
    Released(Vec<PartitionId>),
    /// Whether the database answers.
    Ping,
    /// To remove old entries of the inbox.
    Prune,
}

/// The released records of each partition.
pub(crate) type Released = Vec<(PartitionId, Vec<(QueueKey, Replay)>)>;

#[derive(Debug)]
pub(crate) enum Answer {
    Opened {
        id: PartitionId,
        number: u64,
        position: Position,
        opened: Result<Opened, StoreError>,
    },
    Released(Result<Released, StoreError>),
    Pinged(Result<(), StoreError>),
    /// With whether there is more to remove.
    Pruned(Result<bool, StoreError>),
}

/// The thread, and the question that it has.
pub(crate) struct Lookups {
    make_worker: MakeWorker,
    thread: Option<Thread>,
    /// Why there is none.
    not_started: Option<std::io::Error>,
    asked: Option<(Question, Instant)>,
}

struct Thread {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
}

impl Lookups {
    pub(crate) fn new(make_worker: MakeWorker) -> Self {
        Self { make_worker, thread: None, not_started: None, asked: None }
    }

    /// Whether nothing is asked.
    pub(crate) fn is_free(&self) -> bool {
        self.asked.is_none()
    }

    /// Asks, if nothing is asked already.
    pub(crate) fn ask(&mut self, question: Question, now: Instant) {
        if !self.is_free() {
            return;
        }
        if self.thread.is_none() {
            self.thread = match Thread::start(&self.make_worker) {
                Ok(thread) => Some(thread),
                Err(error) => {
                    self.not_started = Some(error);
                    None
                }
            };
        }
        if let Some(thread) = &self.thread {
            // If it has ended, `answer` finds that.
            drop(thread.questions.send(question.clone()));
        }
        self.asked = Some((question, now));
    }

    /// The answer, once it is there. A thread that does not answer in time is left alone, and the next question has another one: the
    /// pool bounds how many of them wait for a connection that hangs.
    pub(crate) fn answer(&mut self, now: Instant) -> Option<Answer> {
        let (_, asked_at) = self.asked.as_ref()?;
        let received = self.thread.as_ref().map_or(Err(TryRecvError::Disconnected), |thread| thread.answers.try_recv());
        let problem = match received {
            Ok(answer) => {
                self.asked = None;
                return Some(answer);
            }
            Err(TryRecvError::Empty) if now < *asked_at + CONSUMER_LOOKUP_TIMEOUT => return None,
            Err(TryRecvError::Empty) => StoreError::TimedOut { after: CONSUMER_LOOKUP_TIMEOUT },
            Err(TryRecvError::Disconnected) => {
                // Not `Unreachable`: that would stop every handler, and the database may well answer.
                StoreError::Statement(match self.not_started.take() {
                    Some(error) => format!("the consumer's thread for lookups does not start: {error}").into(),
                    None => "the consumer's thread for lookups has ended".into(),
                })
            }
        };
        self.thread = None;
        let (question, _) = self.asked.take()?;
        Some(match question {
            Question::Open { id, number, position } => Answer::Opened { id, number, position, opened: Err(problem) },
            Question::Released(_) => Answer::Released(Err(problem)),
            Question::Ping => Answer::Pinged(Err(problem)),
            Question::Prune => Answer::Pruned(Err(problem)),
        })
    }
}

impl Thread {
    fn start(make_worker: &MakeWorker) -> std::io::Result<Self> {
        let (questions, asked) = channel();
        let (answered, answers) = channel();
        let make_worker = Arc::clone(make_worker);
        let serve = move || serve(make_worker(), &asked, &answered);
        thread::Builder::new().name("outbox-lookups".to_owned()).spawn(serve)?;
        Ok(Self { questions, answers })
    }
}

fn serve(mut worker: Box<dyn Worker>, questions: &Receiver<Question>, answers: &Sender<Answer>) {
    for question in questions {
        let answer = answer(&mut *worker, question);
        worker.rest();
        // Nobody waits for it any more.
        if answers.send(answer).is_err() {
            return;
        }
    }
}

fn answer(worker: &mut dyn Worker, question: Question) -> Answer {
    match question {
        Question::Open { id, number, position } => {
            let opened = worker.open(&id, &position);
            Answer::Opened { id, number, position, opened }
        }
        Question::Released(ids) => {
            let of_each = ids.into_iter().map(|id| worker.released(&id).map(|released| (id, released)));
            Answer::Released(of_each.collect())
        }
        Question::Ping => Answer::Pinged(worker.ping()),
        Question::Prune => Answer::Pruned(worker.prune()),
    }
}
