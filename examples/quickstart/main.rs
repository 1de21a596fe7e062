//! diesel-outbox in ten seconds: an order shop that commits, rolls back, loses its Kafka and gets it back, and has a
//! process killed between COMMIT and send. Needs no server.
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! It checks what it tells, and fails where that is not so.
#![allow(clippy::print_stdout, reason = "the story is its output")]

mod crash;
mod figures;
mod kafka;
mod shop;

use std::error::Error;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use diesel::Connection;
use diesel::result::Error as QueryError;
use diesel_outbox::relay::{BlockingRelay, TransportStatus};

use self::figures::{Figures, Metrics, Table};
use self::kafka::Kafka;
use self::shop::{Shop, write};

type Failure = Box<dyn Error + Send + Sync>;

/// How long anything may take that is expected to happen.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Longer than `t`, so that the sweeper would take the orders of the outage if it were not for the outage.
const OUTAGE: Duration = Duration::from_secs(4);

fn main() -> Result<(), Failure> {
    if let Some(task) = crash::Task::from_arguments()? {
        return task.run();
    }
    println!("A small order shop: orders in SQLite, and a Kafka inside this process (librdkafka's mock cluster).");
    println!("An order and its message are written in one transaction. Kafka gets the message if it commits.");
    let folder = tempfile::tempdir()?;
    let mut story = Story::begin(folder.path().join("shop.db"))?;
    story.act("Business as usual", 1..=5, business_as_usual)?;
    story.act("A transaction rolls back", 6..=6, a_transaction_rolls_back)?;
    story.act("A savepoint rolls back", 7..=8, a_savepoint_rolls_back)?;
    story.act("Kafka goes away", 9..=28, kafka_goes_away)?;
    story.act("A process is killed", 29..=38, a_process_is_killed)?;
    story.end()
}

fn business_as_usual(story: &mut Story, orders: RangeInclusive<i64>) -> Result<Figures, Failure> {
    for order in orders {
        story.shop.place(order)?;
    }
    story.arrived(5)?;
    let waits = story.metrics.direct();
    let median = waits.get(waits.len() / 2).copied().unwrap_or_default();
    println!("   5 orders committed. Kafka had their messages {median:.1?} (median) after COMMIT, and nobody polled.");
    Ok(Figures { placed: 5, committed: 5, direct: 5, ..Figures::default() })
}

fn a_transaction_rolls_back(story: &mut Story, orders: RangeInclusive<i64>) -> Result<Figures, Failure> {
    let Shop { conn, outbox } = &mut story.shop;
    let refused = conn.immediate_transaction(|conn| {
        write(conn, outbox, *orders.start())?;
        // The payment is refused.
        Err::<(), _>(QueryError::RollbackTransaction)
    });
    assert_eq!(refused, Err(QueryError::RollbackTransaction));
    println!("   1 order placed, its payment refused. The message went with the order: Kafka gets neither.");
    Ok(Figures { placed: 1, never_sent: 1, ..Figures::default() })
}

fn a_savepoint_rolls_back(story: &mut Story, orders: RangeInclusive<i64>) -> Result<Figures, Failure> {
    let Shop { conn, outbox } = &mut story.shop;
    conn.immediate_transaction(|conn| {
        write(conn, outbox, *orders.start())?;
        let gift = conn.transaction(|conn| {
            write(conn, outbox, *orders.end())?;
            Err::<(), _>(QueryError::RollbackTransaction)
        });
        assert_eq!(gift, Err(QueryError::RollbackTransaction));
        Ok::<_, QueryError>(())
    })?;
    story.arrived(1)?;
    println!("   1 order committed; a second one, in a savepoint of the same transaction, rolled back. 1 message.");
    Ok(Figures { placed: 2, committed: 1, direct: 1, never_sent: 1, ..Figures::default() })
}

fn kafka_goes_away(story: &mut Story, orders: RangeInclusive<i64>) -> Result<Figures, Failure> {
    story.kafka.go_down()?;
    story.until("the relay sees the outage", |story| Ok(story.outage().is_some()))?;
    let began = Instant::now();
    for order in orders {
        story.shop.place(order)?;
    }
    let each = began.elapsed() / 20;
    println!("   20 orders committed all the same, in {each:.1?} each: none of them waits for Kafka.");
    story.until("the outage lasts", |story| Ok(story.outage() > Some(OUTAGE)))?;
    let waiting = story.shop.waiting()?;
    assert_eq!((waiting.messages, waiting.attempts), (20, 0), "messages wait, and attempts are spent");
    story.kafka.come_back()?;
    let back = Instant::now();
    story.arrived(20)?;
    let after = back.elapsed();
    let attempts = waiting.attempts;
    println!(
        "   Kafka came back after {OUTAGE:?}, and {after:.1?} later it had all 20. Attempts spent meanwhile: {attempts}."
    );
    Ok(Figures { placed: 20, committed: 20, swept: 20, ..Figures::default() })
}

fn a_process_is_killed(story: &mut Story, orders: RangeInclusive<i64>) -> Result<Figures, Failure> {
    crash::commit_in_child_and_kill(&story.file, &story.kafka.address(), orders.clone())?;
    let killed = Instant::now();
    story.kafka.catch_up()?;
    let sent = story.kafka.orders.range(orders).count();
    println!(
        "   Another process committed 10 orders and was killed (SIGKILL) before it sent any. In Kafka: {sent} of 10."
    );
    assert_eq!(sent, 0, "the killed process sent nothing");
    story.arrived(10)?;
    let after = killed.elapsed();
    println!("   The sweeper of this process took over when they were t = 3s old: all 10 arrived after {after:.1?}.");
    Ok(Figures { placed: 10, committed: 10, swept: 10, ..Figures::default() })
}

struct Story {
    file: PathBuf,
    metrics: Metrics,
    kafka: Kafka,
    shop: Shop,
    relay: BlockingRelay,
    table: Table,
    acts: usize,
}

impl Story {
    fn begin(file: PathBuf) -> Result<Self, Failure> {
        let metrics = Metrics::install()?;
        let kafka = Kafka::start()?;
        let shop = Shop::create(&file)?;
        let relay = shop.relay(&file, &kafka.address())?.start_blocking()?;
        Ok(Self { file, metrics, kafka, shop, relay, table: Table::default(), acts: 0 })
    }

    /// Plays an act, and compares what it tells with what was counted.
    fn act(
        &mut self,
        title: &'static str,
        orders: RangeInclusive<i64>,
        play: impl FnOnce(&mut Self, RangeInclusive<i64>) -> Result<Figures, Failure>,
    ) -> Result<(), Failure> {
        self.acts += 1;
        println!("\n{}. {title}", self.acts);
        let duplicates_before = self.kafka.duplicates;
        let narrated = play(self, orders.clone())?;
        self.kafka.catch_up()?;
        let direct = self.metrics.direct().len();
        let delivered = usize::try_from(self.metrics.delivered())?;
        let placed = orders.clone().count();
        let counted = Figures {
            placed,
            committed: self.shop.orders()?.iter().filter(|order| orders.contains(order)).count(),
            direct,
            swept: delivered - direct,
            never_sent: placed - self.kafka.orders.range(orders).count(),
            duplicates: self.kafka.duplicates - duplicates_before,
        };
        assert_eq!(narrated, counted, "what is told of {title:?}, and what was counted");
        self.table.add(title, counted);
        self.metrics.reset();
        Ok(())
    }

    /// Waits until Kafka acknowledged as many messages in this act, and they were settled.
    fn arrived(&mut self, messages: u64) -> Result<(), Failure> {
        self.until("the messages arrive", |story| {
            Ok(story.metrics.delivered() >= messages && story.shop.waiting()?.messages == 0)
        })
    }

    /// For how long Kafka has been away, as the relay sees it.
    fn outage(&self) -> Option<Duration> {
        match self.relay.status().ok()?.transport {
            TransportStatus::Down { since, .. } => Some(since),
            _ => None,
        }
    }

    fn until(
        &mut self,
        what: &str,
        mut reached: impl FnMut(&mut Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while !reached(self)? {
            assert!(Instant::now() < deadline, "{what}: not within {TIMEOUT:?}");
            self.kafka.listen();
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), Failure> {
        let report = self.relay.shutdown(TIMEOUT)?;
        assert!(report.is_clean(), "{report:?}");
        self.kafka.catch_up()?;
        let received: Vec<i64> = self.kafka.orders.keys().copied().collect();
        assert_eq!(received, self.shop.orders()?, "Kafka knows the orders that were committed, and no others");
        println!();
        self.table.print();
        println!("\nEvery committed order reached Kafka, no other one did, and none came twice.");
        Ok(())
    }
}
