use crate::store::sql::text::statements;

const LOCK: &str = " FOR UPDATE SKIP LOCKED";

const DELAYED: &str = "
    SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
    WHERE message_id = UNHEX(?1) AND deliver_at IS NOT NULL AND epoch = 0";

const WAITING: &str = "
    SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
    WHERE message_id = UNHEX(?1) AND lane = -1 AND due_at > UTC_TIMESTAMP(6) AND
      IF(epoch = 0, deliver_at IS NOT NULL, due_at > TIMESTAMPADD(MICROSECOND, ?2, UTC_TIMESTAMP(6)))";

const NOT_HELD: &str = "
    SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
    WHERE message_id = UNHEX(?1) AND lane = -1 AND (due_at <= UTC_TIMESTAMP(6) OR
      IF(epoch = 0, deliver_at IS NOT NULL, due_at > TIMESTAMPADD(MICROSECOND, ?2, UTC_TIMESTAMP(6))))";

const OUTSIDE_OF_LANES: &str = "
    SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
    WHERE message_id = UNHEX(?1) AND lane = -1";

// Rows that a claim has locked are skipped; rows that one has leased, or has held before, have another epoch. Each statement also
// returns whether the message exists. In PostgreSQL all parts see the table as it was before the statement. MySQL finds, locks and
// writes the row, and otherwise checks for it. SQLite writes, then checks.
statements! {
    /// Operations on single messages that wait.
    WaitingSql

    // Otherwise the message would look as if it had been sent too early.
    @delivered_now {
        postgres: "deliver_at = CASE WHEN m.deliver_at > clock_timestamp() THEN clock_timestamp() ELSE m.deliver_at END";
        mysql: "deliver_at = CASE WHEN deliver_at > UTC_TIMESTAMP(6) THEN UTC_TIMESTAMP(6) ELSE deliver_at END";
        sqlite: "deliver_at = CASE WHEN deliver_at > {now} THEN {now} ELSE deliver_at END";
    }

    /// Removes a delayed message that no claim has taken yet.
    cancel {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT id FROM outbox_messages WHERE message_id = $1 AND deliver_at IS NOT NULL AND epoch = 0 FOR UPDATE SKIP LOCKED
            ), gone AS (
              DELETE FROM outbox_messages m USING l WHERE m.id = l.id RETURNING m.topic
            )
            SELECT (SELECT topic FROM gone),
              EXISTS (SELECT 1 FROM outbox_messages WHERE message_id = $1 AND deliver_at IS NOT NULL)";
        mysql:
            DELAYED,
            format!("{DELAYED}{LOCK}"),
            "DELETE FROM outbox_messages WHERE id = ?1", "
            SELECT CAST(id AS SIGNED), topic FROM outbox_messages FORCE INDEX (outbox_messages_message_id)
            WHERE message_id = UNHEX(?1) AND deliver_at IS NOT NULL";
        sqlite:
            "DELETE FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL AND epoch = 0 RETURNING topic",
            "SELECT topic FROM outbox_messages WHERE message_id = ?1 AND deliver_at IS NOT NULL";
    }

    // A held row is due within a lease, and so is one that will be tried again soon. Nothing tells the two apart, and the first
    // must not be touched. At epoch 0 the relay of the enqueuing process holds it for the topic's staleness. Found by the row id,
    // except on MySQL: elsewhere no index has the message ids of rows that are not delayed.
    /// Makes a message due that nobody holds and nobody would send within a lease.
    send_now {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT id FROM outbox_messages WHERE id = $3 AND message_id = $1 AND lane = -1 AND due_at > statement_timestamp() AND
                CASE epoch WHEN 0 THEN deliver_at IS NOT NULL ELSE due_at > statement_timestamp() + $2 * interval '1 millisecond' END
              FOR UPDATE SKIP LOCKED
            ), due AS (
              UPDATE outbox_messages m SET due_at = clock_timestamp(), {delivered_now}, epoch = m.epoch % 2147483647 + 1 FROM l WHERE m.id = l.id RETURNING m.topic
            )
            SELECT (SELECT topic FROM due), EXISTS (SELECT 1 FROM outbox_messages WHERE id = $3 AND message_id = $1 AND lane = -1)";
        mysql:
            WAITING,
            format!("{WAITING}{LOCK}"),
            "UPDATE outbox_messages SET due_at = UTC_TIMESTAMP(6), {delivered_now}, epoch = epoch % 2147483647 + 1 WHERE id = ?1",
            OUTSIDE_OF_LANES;
        sqlite: "
            UPDATE outbox_messages SET due_at = {now}, {delivered_now}, epoch = epoch % 2147483647 + 1
            WHERE id = ?3 AND message_id = ?1 AND lane = -1 AND due_at > {now}
              AND CASE epoch WHEN 0 THEN deliver_at IS NOT NULL ELSE due_at > {now} + ?2 END
            RETURNING topic",
            "SELECT topic FROM outbox_messages WHERE id = ?3 AND message_id = ?1 AND lane = -1";
    }

    /// Removes a message that nobody holds: it is due, or is as above.
    cancel_waiting {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT id FROM outbox_messages WHERE id = $3 AND message_id = $1 AND lane = -1 AND (due_at <= statement_timestamp() OR
                CASE epoch WHEN 0 THEN deliver_at IS NOT NULL ELSE due_at > statement_timestamp() + $2 * interval '1 millisecond' END)
              FOR UPDATE SKIP LOCKED
            ), gone AS (
              DELETE FROM outbox_messages m USING l WHERE m.id = l.id RETURNING m.topic
            )
            SELECT (SELECT topic FROM gone), EXISTS (SELECT 1 FROM outbox_messages WHERE id = $3 AND message_id = $1 AND lane = -1)";
        mysql: NOT_HELD, format!("{NOT_HELD}{LOCK}"), "DELETE FROM outbox_messages WHERE id = ?1", OUTSIDE_OF_LANES;
        sqlite: "
            DELETE FROM outbox_messages WHERE id = ?3 AND message_id = ?1 AND lane = -1 AND (due_at <= {now} OR
              CASE epoch WHEN 0 THEN deliver_at IS NOT NULL ELSE due_at > {now} + ?2 END)
            RETURNING topic",
            "SELECT topic FROM outbox_messages WHERE id = ?3 AND message_id = ?1 AND lane = -1";
    }
}
