//! The guides of the repository, as they stand in its `docs/` folder. They are part of the documentation only, and their
//! examples are compiled with it.

// In the repository the guides link to each other by file. The first definition of a link is the one that counts, so
// these turn the same links into those of the documentation.
macro_rules! guides {
    ($($(#[$about:meta])* $name:ident = $file:literal;)+) => {
        $(
            $(#[$about])*
            ///
            /// [architecture]: crate::guide::architecture
            /// [changelog]: crate::guide::changelog
            /// [dead-letters]: crate::guide::dead_letters
            /// [delayed]: crate::guide::delayed
            /// [design]: crate::guide::design
            /// [glossary]: crate::guide::glossary
            /// [guarantees]: crate::guide::guarantees
            /// [history]: crate::guide::history
            /// [http]: crate::guide::http
            /// [kafka]: crate::guide::kafka
            /// [operations]: crate::guide::operations
            /// [ordering]: crate::guide::ordering
            /// [performance]: crate::guide::performance
            /// [pgbouncer]: crate::guide::pgbouncer
            /// [rocketmq]: crate::guide::rocketmq
            /// [testing]: crate::guide::testing
            /// [transports]: crate::guide::transports
            /// [upgrading]: crate::guide::upgrading
            #[doc = concat!("\n", include_str!($file))]
            pub mod $name {}
        )+
    };
}

guides! {
    /// The map, and the two paths of a message.
    architecture = "../docs/architecture.md";
    /// What changed from version to version.
    changelog = "../CHANGELOG.md";
    /// What is done about messages that were given up.
    dead_letters = "../docs/dead-letters.md";
    /// Messages that are sent later, and how to take one back.
    delayed = "../docs/delayed.md";
    /// Why it is so, and what was rejected.
    design = "../docs/design.md";
    /// One meaning for each word.
    glossary = "../docs/glossary.md";
    /// What may be lost, doubled, reordered and late, and when.
    guarantees = "../docs/guarantees.md";
    /// Sent messages that are kept, for how long, and their confirmation by consumers.
    history = "../docs/history.md";
    /// The HTTP transport: what a receiver gets, settings, what an answer does.
    http = "../docs/http.md";
    /// The Kafka transport: what a record carries, settings, guarantees, errors.
    kafka = "../docs/kafka.md";
    /// Metrics, alerts, dead letters, limits, databases, shutdown.
    operations = "../docs/operations.md";
    /// Topics that keep the order of each key, and the nodes that share them.
    ordering = "../docs/ordering.md";
    /// What it costs, measured, and what to turn.
    performance = "../docs/performance.md";
    /// What to set where pgbouncer in transaction mode is between, by version and kind of connection.
    pgbouncer = "../docs/pgbouncer.md";
    /// RocketMQ: settings, guarantees, errors.
    rocketmq = "../docs/rocketmq.md";
    /// Tests of your application, and of your own stores and transports.
    testing = "../docs/testing.md";
    /// The transports side by side.
    transports = "../docs/transports.md";
    /// From one version to the next.
    upgrading = "../docs/upgrading.md";
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
