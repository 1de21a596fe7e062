//! The library's own consumers.

use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::consumer::{HandlerError, Record, RunningConsumer};
use diesel_outbox::testing::ConsumerUnderTest;
use tokio::runtime::Runtime;

use super::super::bed::{Act, Bed, Broker, DEADLINE, On, number};

struct Ours {
    bed: Bed,
    runtime: Runtime,
}

impl Ours {
    fn open(open: impl AsyncFnOnce() -> Option<Bed>) -> Option<Self> {
        let runtime = Runtime::new().expect("a runtime");
        let bed = runtime.block_on(open())?;
        Some(Self { bed, runtime })
    }
}

impl ConsumerUnderTest for Ours {
    type Member = RunningConsumer;

    fn send(&self, records: &[(MessageId, String, String)]) {
        let _entered = self.runtime.enter();
        let number = |text: &str| text.parse().expect("a number");
        self.bed.place.send_copies(records.iter().map(|(id, key, text)| (*id, number(text), key.clone())));
    }

    fn start(&self, handle: Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>) -> RunningConsumer {
        let act = move |record: &Record| {
            let (handle, text) = (Arc::clone(&handle), number(record).to_string());
            Act::WriteThen(Box::new(move || handle(&text).map_err(HandlerError::retriable)))
        };
        let (place, _entered) = (&self.bed.place, self.runtime.enter());
        match place.broker {
            Broker::Kafka => place.start_acting(place.consumer(), act),
            #[cfg(feature = "_test")]
            Broker::Rocketmq => place.start_acting(super::super::rocketmq::consumer(place), act),
        }
    }

    fn effects(&self) -> Vec<String> {
        self.bed.place.effects().into_iter().map(|effect| effect.number.to_string()).collect()
    }

    fn shut_down(&self, member: RunningConsumer) {
        let report = member.shutdown_blocking(DEADLINE);
        // Where another member has just left, the broker may refuse the last offsets.
        assert!(report.in_time && report.running == 0, "{report:?}");
    }

    fn forget_acknowledgements(&self) {
        let place = &self.bed.place;
        match place.broker {
            Broker::Kafka => place.commit_offsets(0),
            #[cfg(feature = "_test")]
            Broker::Rocketmq => super::super::rocketmq::offsets::set_offsets(place, 0),
        }
    }

    fn prune(&self) {
        self.bed.place.prune();
    }

    fn max_wait(&self) -> Duration {
        DEADLINE
    }
}

mod kafka_on_postgres {
    use super::{Bed, On, Ours};

    fn open() -> Option<Ours> {
        Ours::open(async || Bed::open(On::Postgres, 3).await)
    }

    diesel_outbox::consumer_conformance_tests!(open);
}

mod kafka_on_sqlite {
    use super::{Bed, On, Ours};

    fn open() -> Option<Ours> {
        Ours::open(async || Bed::open(On::Sqlite, 3).await)
    }

    diesel_outbox::consumer_conformance_tests!(open);
}

#[cfg(feature = "_test")]
mod rocketmq_on_mariadb {
    use super::super::super::rocketmq;
    use super::{On, Ours};

    fn open() -> Option<Ours> {
        Ours::open(async || rocketmq::bed(On::Mariadb))
    }

    diesel_outbox::consumer_conformance_tests!(open);
}
