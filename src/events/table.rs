//! The table. A test compares it with `docs/events.md`, another one with each place that logs.

use tracing::Level;

use super::event::Event;

macro_rules! events {
    ($($name:ident = $level:ident $id:literal [$($field:ident),*], $text:literal, $action:literal;)*) => {
        $(
            pub(crate) const $name: Event = Event {
                id: $id,
                level: Level::$level,
                fields: &[$(stringify!($field)),*],
                text: $text,
                action: $action,
            };
        )*
        pub(super) const EVERY: &[Event] = &[$($name),*];
    };
}

// By topic, in the order in which the page shows them.
events! {
    // A relay starts and ends.
    RELAY_ENDED = INFO "relay_ended" [],
        "the relay ended with nothing left",
        "Nothing.";
    RELAY_ENDED_EARLY = WARN "relay_ended_early" [report],
        "the relay ended with work left: a sweeper sends the messages, but nobody calls the dead-letter callbacks",
        "Give the shutdown more time, if `report` shows this at each deployment.";
    RELAY_DROPPED = WARN "relay_dropped" [queued, in_flight],
        "a relay was dropped without shutdown: a sweeper sends the remaining messages later, and may send some twice; call shutdown or run_until, and await it",
        "Call `shutdown` or `run_until`, and await it.";
    RELAY_THREAD_PANICKED = ERROR "relay_thread_panicked" [],
        "the relay's thread ended by a panic",
        "Restart the process, and report it: the log before it has the panic.";
    STARTED_WITHOUT_DATABASE = WARN "started_without_database" [error],
        "the relay starts without its database",
        "Nothing if the database comes back; `error` says what is wrong.";
    STARTED_WITHOUT_BROKER = WARN "started_without_broker" [error, transport],
        "the relay starts without its broker",
        "Nothing if the broker comes back; `error` says what is wrong.";
    PAUSES_UNKNOWN = WARN "pauses_unknown" [error],
        "nothing is sent until the database says which topics are paused",
        "Repair the database. The relay asks again by itself.";
    DATABASE_SETTING = WARN "database_setting" [problem],
        "a setting of the database breaks a guarantee",
        "Change the setting that `problem` names.";
    POOL_SHARED = WARN "pool_shared" [ours, others, size],
        "others use the pool of the relay's store, so they and the relay will wait for each other's connections: give the relay its own pool, or let the store open its own connections with connect(..)",
        "Give the relay its own pool, or let its store open its own connections with `connect`.";
    BROKER_MISCONFIGURED = ERROR "broker_misconfigured" [error, transport],
        "the broker's topics do not match the configuration: correct them at the broker, or the configuration",
        "Correct the topic at the broker, or the configuration: `error` names the difference.";
    // Enqueue.
    NO_RELAY = WARN "no_relay" [message_id, topic, waiting],
        "messages are enqueued, and no relay seems to send them: this process has started none. Start a relay with outbox.relay(), in this or another process. If one runs elsewhere, see its log: its broker may be down, or the topic may be paused",
        "Start a relay, here or in another process. If one runs, read its log.";
    HOOK_REPLACED = WARN "hook_replaced" [],
        "a connection has the application's own instrumentation, so the outbox cannot see its commits: messages wait for the sweeper. Install both: `conn.set_instrumentation(outbox.commit_hook().chain(mine))`",
        "Chain both: `conn.set_instrumentation(outbox.commit_hook().chain(mine))`.";
    // Panics.
    CALL_PANICKED = ERROR "call_panicked" [call, about],
        "a call into code that is not the relay's panicked: the relay goes on without its answer",
        "Fix the code that `call` and `about` name. See \"Panics\" in docs/operations.md.";
    TASK_PANICKED = ERROR "task_panicked" [task, error],
        "a task of the relay panicked: restarting it",
        "Nothing if it stays alone. Otherwise report it, with the panic from the log.";
    DEAD_LETTER_CALLBACK_PANICKED = ERROR "dead_letter_callback_panicked" [notification],
        "a dead-letter callback panicked: continuing with the next notification",
        "Fix the callback. The message itself is safe among the dead letters.";
    // Brokers and topics.
    TRANSPORT_DOWN = WARN "transport_down" [transport, class, error],
        "the transport is down: claims are suspended until it answers",
        "Repair the broker, or the login if `class` is `authentication`. Nothing is lost meanwhile.";
    TRANSPORT_UP = INFO "transport_up" [transport],
        "the transport is back",
        "Nothing.";
    TOPIC_REFUSED = ERROR "topic_refused" [topic, reason],
        "the broker refuses the topic: its messages wait",
        "Create the topic, or grant write access to it: `reason` says which.";
    TOPIC_ACCEPTED = INFO "topic_accepted" [topic],
        "the broker accepts the topic again",
        "Nothing.";
    TOPIC_BUSY = WARN "topic_busy" [topic, reason, wait],
        "the receiver asked for a pause: backing off from the topic",
        "Nothing: the relay waits as long as the receiver asked.";
    TOPIC_PAUSED = WARN "topic_paused" [topic],
        "the topic is paused: its messages wait",
        "Nothing, or resume the topic.";
    TOPIC_RESUMED = INFO "topic_resumed" [topic],
        "the topic is resumed",
        "Nothing.";
    FINGERPRINT_UNKNOWN = WARN "fingerprint_unknown" [message_id, topic, kind, fingerprint],
        "a row has a shape that this process does not know: another version of the application wrote it",
        "Nothing while a new version is rolled out. Otherwise see that consumers know the shape: docs/schemas.md.";
    OUTCOME_UNEXPECTED = ERROR "outcome_unexpected" [row],
        "the transport reported an outcome twice, or for a row that was never sent: ignoring it",
        "Fix the transport, if it is yours. Otherwise report it.";
    OUTCOME_MISSING = ERROR "outcome_missing" [row, topic, sent_for],
        "the transport never reported the outcome of a message: sending it again",
        "Fix the transport, if it is yours. Otherwise report it. A duplicate may follow.";
    KAFKA_CLIENT_ERROR = ERROR "kafka_client_error" [facility, text],
        "the Kafka client reports an error",
        "Read `text`.";
    KAFKA_CLIENT_WARNING = WARN "kafka_client_warning" [facility, text],
        "the Kafka client reports a warning",
        "Read `text`.";
    ROCKETMQ_BROKER_DOWN = WARN "rocketmq_broker_down" [broker, error],
        "a broker is down; its topics were neither created nor checked",
        "Repair the broker that `broker` names.";
    // Reads of the database.
    POLL_FAILED = WARN "poll_failed" [error],
        "the outbox could not be polled: trying again",
        "Repair the database: `error` says what is wrong.";
    POLL_BACK = INFO "poll_back" [],
        "the outbox can be polled again",
        "Nothing.";
    CLAIM_FAILED = WARN "claim_failed" [topic, error],
        "a claim failed: trying again",
        "Repair the database: `error` says what is wrong.";
    CONFIRM_FAILED = WARN "confirm_failed" [rows, error],
        "committed rows could not be read: leaving them to the sweeper",
        "Nothing if it ends soon: a sweeper sends the rows. `error` says what is wrong.";
    FLUSH_FAILED = WARN "flush_failed" [error],
        "a flush could not read which rows are settled: trying again",
        "Repair the database: `error` says what is wrong.";
    BACKLOG_NOT_COUNTED = WARN "backlog_not_counted" [error],
        "the backlog could not be counted: its gauges keep their last values until it can",
        "Repair the database, or grant what `error` names.";
    DATABASE_SLOW = WARN "database_slow" [topic, rows_max],
        "the database is slow: reading fewer rows at once until reads are in time",
        "Nothing if it ends soon. Otherwise look for what makes the database slow.";
    FULL_SCAN_TIMED_OUT = WARN "full_scan_timed_out" [took, scan_depth],
        "a full scan timed out: an old transaction, prepared transaction or replication slot keeps vacuum from removing dead index entries. End it: until then, a row that commits more than `scan_depth` after it was due is not found",
        "End the old transaction, or drop the replication slot that nobody reads.";
    // Outcomes.
    LEASES_NOT_EXTENDED = WARN "leases_not_extended" [error],
        "leases could not be extended: trying again until they expire",
        "Repair the database: `error` says what is wrong. Duplicates may follow.";
    FAILURES_NOT_WRITTEN = WARN "failures_not_written" [rows],
        "failures were not written before their rows' leases ended: leaving the rows to the sweeper",
        "Nothing: the messages are sent again. If it repeats, look at the database.";
    SETTLE_FAILED = WARN "settle_failed" [rows, error],
        "delivered rows could not be settled: trying again",
        "Repair the database: `error` says what is wrong.";
    SETTLE_DEFERRED = WARN "settle_deferred" [keys, error],
        "delivered rows cannot be settled: trying again later",
        "Grant what `error` names, or remove the trigger or rule that refuses it. `keys` has the first rows.";
    SETTLE_STILL_FAILS = WARN "settle_still_fails" [rows, error],
        "delivered rows still cannot be settled",
        "As for `settle_deferred`.";
    SETTLE_MISSED = WARN "settle_missed" [rows, dead, error],
        "delivered rows were already gone",
        "Look for a process that was stopped or starved, or for somebody who deletes rows. Consumers may have seen duplicates.";
    OUTCOMES_NOT_WRITTEN = WARN "outcomes_not_written" [rows, error],
        "outcomes could not be written",
        "Repair the database: `error` says what is wrong, and what it costs.";
    OUTCOME_SET_ASIDE = ERROR "outcome_set_aside" [row],
        "the outcome of a row cannot be written: leaving the row as it is",
        "Read the error before it, and correct the row: the database refuses every change of it.";
    // Dead letters, history, audit.
    DEAD_LETTERED = ERROR "dead_lettered" [message_id, topic, reason, error],
        "a message failed for good: moving it to the dead letters",
        "Read `error`, fix the cause, and redrive or purge the message. See docs/dead-letters.md.";
    ROW_DEAD_LETTERED = ERROR "row_dead_lettered" [message_id, topic, error],
        "a row cannot be decoded: moving it to the dead letters",
        "Find out who wrote the row. Correct it, and redrive it. See docs/dead-letters.md.";
    DEAD_LETTER_ALERT = ERROR "dead_letter_alert" [letters_max, window_duration, topic, reason],
        "more messages were dead-lettered than the alert allows",
        "Look for one cause of all of them: a deployment, a schema, a receiver.";
    DEAD_LETTER_EDITED = INFO "dead_letter_edited" [message_id, new_id, topic],
        "a dead letter was edited and redriven",
        "Nothing.";
    PRUNE_FAILED = WARN "prune_failed" [what, error],
        "expired rows could not be removed, or partitions not created: trying again",
        "Grant what `error` names, or end reads that take hours. See \"The history's table\" in docs/operations.md.";
    PARTITIONS_NOT_CREATED = WARN "partitions_not_created" [error],
        "partitions of the history could not be created ahead: trying again",
        "Grant what `error` names. See \"The history's table\" in docs/operations.md.";
    AUDIT_MISSING = WARN "audit_missing" [problem],
        "what is done through Admin is not recorded",
        "Create the table, or grant INSERT and UPDATE on it: `problem` says which.";
    // Consumers.
    CONSUMER_ENDED = INFO "consumer_ended" [consumer, report],
        "a consumer ended",
        "Nothing. `report` has what it left to others.";
    CONSUMER_ENDED_EARLY = WARN "consumer_ended_early" [consumer, report],
        "a consumer did not end in time: its threads go on in the background",
        "Look for a handler that takes long, or for a broker that does not answer.";
    CONSUMER_PANICKED = ERROR "consumer_panicked" [consumer],
        "a consumer's loop panicked: it reads nothing any more",
        "Start the process again, and report the panic's message as a defect.";
    CONSUMER_TROUBLE = WARN "consumer_trouble" [consumer, error],
        "a consumer's client or database reports a problem: trying again",
        "Nothing if it ends soon. Otherwise repair what `error` names.";
    CONSUMER_DATABASE_AWAY = WARN "consumer_database_away" [consumer, error],
        "a consumer's database is away: its partitions are paused, and no attempt is spent",
        "Repair the database: `error` says what is wrong.";
    CONSUMER_DATABASE_BACK = INFO "consumer_database_back" [consumer],
        "a consumer's database is back",
        "Nothing.";
    PARTITION_NOT_OPENED = WARN "partition_not_opened" [consumer, error, partition],
        "a consumer could not begin to read a partition: trying again",
        "Repair the broker or the database, or run the outbox's migrations: `error` says what is wrong.";
    PARTITIONS_LOST = WARN "partitions_lost" [consumer, partitions, is_lost],
        "a consumer lost partitions while handlers ran: what they commit is recognised by the next owner",
        "Look for handlers that take longer than a rebalance waits, or for a process that was stopped or starved.";
    OFFSET_MOVED = WARN "offset_moved" [consumer, partition],
        "a partition's offset in the database was moved by another process: reading it again from there",
        "Nothing: a handler was rolled back, because another process had gone on. If it repeats, look for two consumers of one name.";
    RECORDS_GONE = ERROR "records_gone" [partition, committed, first, end],
        "the offset that a consumer had reached is not in the partition: going on from its oldest record",
        "Raise the topic's retention, or speed up the consumer: records were deleted before they were read. Or somebody made the topic anew.";
    RECORD_FAILED = ERROR "record_failed" [consumer, partition, offset, failures, error],
        "a record failed for good: parking it",
        "Read `error`, fix the cause, and release the record. See docs/consumers.md.";
    RECORD_BLOCKS_KEY = ERROR "record_blocks_key" [consumer, partition, offset, failures, wait, error],
        "a record failed for good: its key waits, and it is tried again",
        "Read `error`, and fix the cause.";
    RECORDS_SUSPECTED = ERROR "records_suspected" [consumer, partition, offset, rows, starts],
        "the last owner of a partition ended while these records ran, and nothing beside them: now each runs alone, unless it has failed for good",
        "Look for what ends the process with one of them: memory, a stack overflow, an abort.";
    RECORD_TOO_OLD = ERROR "record_too_old" [consumer, partition, offset],
        "a record is older than what the inbox keeps, so the inbox cannot tell whether it was processed: it is parked alone",
        "Release the record if its effect is missing, otherwise discard it (`outbox parked discard`). Raise the inbox's retention.";
    REPLAY_FAILED = ERROR "replay_failed" [consumer, partition, error],
        "a released record failed again: it stays parked",
        "Read `error`, fix the cause, and release the record again.";
    // Lanes.
    LANE_TAKEN_OVER = INFO "lane_taken_over" [topic, lane, fence, quiet],
        "a lane was taken over",
        "Nothing: its owner ended, or the lanes were balanced anew.";
    LANES_LOST = WARN "lanes_lost" [topic, lanes],
        "lanes were lost because their leases were not renewed in time: duplicates may follow",
        "Look for a stopped or starved process, or a slow database.";
    LANES_LEFT_TO_OTHERS = WARN "lanes_left_to_others" [topic],
        "this node's broker or database keeps failing: leaving its lanes to other nodes for now",
        "Repair this node's network, broker or database.";
    LANES_NOT_BALANCED = WARN "lanes_not_balanced" [topic, error],
        "lanes could not be balanced or renewed: trying again until their leases end",
        "Repair the database: `error` says what is wrong. After the lease others take the lanes.";
    LANES_NOT_READ = WARN "lanes_not_read" [topic, error],
        "lanes could not be read: trying again",
        "Repair the database: `error` says what is wrong.";
    LANE_ROWS_NOT_READ = WARN "lane_rows_not_read" [topic, error],
        "neither a page nor single rows of the lanes could be read: trying again",
        "Repair the database: `error` says what is wrong.";
    LANE_NOT_FENCED = WARN "lane_not_fenced" [topic, lane, error],
        "a lane could not be fenced: trying again",
        "Grant the transactional id that `error` names, or repair the broker.";
    LANE_FENCED_OUT = WARN "lane_fenced_out" [topic, lane],
        "the lane was fenced by somebody else: another node owns it, or another outbox has the same `fence_prefix`",
        "Nothing if another node took the lane. Otherwise give each outbox its own `fence_prefix`.";
    FENCED_LANE_CLOSED = WARN "fenced_lane_closed" [error],
        "a fenced lane closed; it sends nothing until it is fenced again",
        "Nothing: the lane is fenced again by itself. If it repeats, `error` says why.";
    KEY_BLOCKED = ERROR "key_blocked" [message_id, topic, reason, wait, error],
        "a message is refused, and its key waits behind it: correct or remove it",
        "Fix the cause, then pause and resume the topic; or correct or delete the row. See docs/ordering.md.";
    KEY_BLOCKED_BY_ROW = ERROR "key_blocked_by_row" [message_id, topic, error],
        "a row cannot be decoded, and its key waits behind it: correct or remove the row",
        "Correct the row, or delete it.";
    ROWS_OUTSIDE_LANES = WARN "rows_outside_lanes" [topic],
        "the topic is ordered but has messages without a lane, which are sent outside its lanes in no order",
        "Nothing, if the topic became ordered a short while ago. Otherwise find who writes rows without a lane.";
    ROWS_IN_OLD_LANES = ERROR "rows_in_old_lanes" [problem],
        "a topic that is not ordered has messages in lanes, which no relay sends",
        "Follow `problem`: make the topic ordered until they are sent.";
    OLD_LANES_NOT_CHECKED = WARN "old_lanes_not_checked" [error],
        "could not check whether unordered topics have messages left in lanes: trying again",
        "Repair the database: `error` says what is wrong.";
    OLD_LANES_CHECK_REFUSED = ERROR "old_lanes_check_refused" [error],
        "could not check whether unordered topics have messages left in lanes",
        "Grant what `error` names, and restart the relay.";
    NOTICES_LOST = WARN "notices_lost" [error],
        "notices are not received: the poll finds the commits of other processes until they are",
        "Repair the connection. Behind pgbouncer in transaction mode, use the server's own address.";
    NOTICES_BACK = INFO "notices_back" [],
        "notices are received again",
        "Nothing.";
    NOTICES_NOT_SENT = WARN "notices_not_sent" [error],
        "other relays could not be notified of commits to their lanes: their poll finds them",
        "Repair the connection: `error` says what is wrong.";
    // Half messages.
    HALF_OUTCOMES_UNREAD = WARN "half_outcomes_unread" [error],
        "the outcomes of half messages could not be read from the database; their brokers will ask",
        "Repair the database: `error` says what is wrong.";
    HALF_OUTCOME_UNREPORTED = WARN "half_outcome_unreported" [topic, message_id, error],
        "the outcome of a half message could not be reported to the broker; it will ask",
        "Nothing if it ends soon. Otherwise repair the broker.";
    HALF_CHECK_UNANSWERED = WARN "half_check_unanswered" [topic, message_id, error],
        "a broker asked about a half message, but the database could not be read; it will ask again",
        "Repair the database before the broker gives up asking.";
    HALF_CHECKS_NOT_RECEIVED = WARN "half_checks_not_received" [group, error],
        "no broker can ask about half messages yet; trying again",
        "Repair the broker, or the login: `error` says what is wrong.";
    HALF_MARKS_NOT_REMOVED = WARN "half_marks_not_removed" [error],
        "marks of ended half messages could not be removed; they will be pruned with the old ones",
        "Grant DELETE on the marks, or repair the database.";
    HALF_MARKS_NOT_PRUNED = WARN "half_marks_not_pruned" [error],
        "old marks of half messages could not be removed; trying again later",
        "Grant DELETE on the marks, or repair the database.";
}
