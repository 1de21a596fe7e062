use crate::store::sql::text::statements;

statements! {
    /// Admin operations on dead letters.
    DeadLetterSql

    // Moves rows that are `gone` from another table back to the live messages: to the lanes in $2, after everything that is there.
    // A row outside of lanes keeps its id: a late acknowledgement is of this very message, and settles it.
    @insert_live {
        postgres: "back AS (
            SELECT gone.*, k.to_lane FROM gone JOIN unnest($1, $2) AS k(message_id, to_lane) ON k.message_id = gone.message_id
            ), unordered AS (
              INSERT INTO outbox_messages
                (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
              SELECT id, message_id, topic, -1, key, kind, headers, payload, clock_timestamp(), deliver_at, epoch % 2147483647 + 1, errors, created_at
              FROM back WHERE to_lane < 0 RETURNING id, message_id
            ), ordered AS (
              INSERT INTO outbox_messages
                (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
              SELECT message_id, topic, to_lane, key, kind, headers, payload, timestamptz 'epoch', deliver_at, epoch % 2147483647 + 1, errors, created_at
              FROM back WHERE to_lane >= 0 ORDER BY back.id RETURNING id, message_id
            )
            SELECT id, message_id FROM unordered UNION ALL SELECT id, message_id FROM ordered";
    }

    @columns {
        postgres: "message_id, topic, lane, key, kind, headers, payload, created_at, dead_at, attempts, failures, errors::text, reason";
        mysql: "message_id, topic, lane, `key`, kind, headers, payload, TIMESTAMPDIFF(MICROSECOND, {epoch}, created_at),
              TIMESTAMPDIFF(MICROSECOND, {epoch}, dead_at), attempts, failures, CAST(errors AS CHAR), reason";
        sqlite: "message_id, topic, lane, key, kind, headers, payload, created_at, dead_at, attempts, failures, errors, reason";
    }

    /// The beginning of a search by the message id.
    select {
        postgres: "SELECT {columns} FROM outbox_dead_letters";
        mysql: "SELECT {columns} FROM outbox_dead_letters";
        sqlite: "SELECT {columns} FROM outbox_dead_letters";
    }

    // MySQL otherwise reads all of a topic, or all of the table and sorts it, whatever the LIMIT.
    /// The beginning of a search in the order of the index.
    select_in_order {
        postgres: "SELECT {columns} FROM outbox_dead_letters";
        mysql: "SELECT {columns} FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic)";
        sqlite: "SELECT {columns} FROM outbox_dead_letters";
    }

    /// The same for positions only.
    select_cursors {
        postgres: "SELECT message_id, topic, dead_at FROM outbox_dead_letters";
        mysql: "
            SELECT message_id, topic, TIMESTAMPDIFF(MICROSECOND, {epoch}, dead_at)
            FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic)";
        sqlite: "SELECT message_id, topic, dead_at FROM outbox_dead_letters";
    }

    now {
        postgres: "SELECT clock_timestamp()";
        mysql: "SELECT TIMESTAMPDIFF(MICROSECOND, {epoch}, UTC_TIMESTAMP(6))";
        sqlite: "SELECT {now}";
    }

    count {
        postgres: "
            SELECT topic, split_part(reason, ':', 1) AS word, count(*) FROM outbox_dead_letters GROUP BY topic, word ORDER BY topic, word";
        mysql: "
            SELECT topic, SUBSTRING_INDEX(reason, ':', 1) AS word, COUNT(*) FROM outbox_dead_letters
            GROUP BY topic, word ORDER BY topic, word";
        sqlite: "
            SELECT topic, substr(reason, 1, instr(reason || ':', ':') - 1) AS word, count(*) FROM outbox_dead_letters
            GROUP BY topic, word ORDER BY topic, word";
    }

    // The CTE comes first, so that its values are bound first.
    /// Counts what a search reads by topic, reason word and class, and how many of it meet further conditions.
    groups {
        postgres: "
            WITH r AS (SELECT topic, reason, kind, key, errors, dead_at FROM outbox_dead_letters WHERE {range} ORDER BY topic, dead_at LIMIT {rows_max})
            SELECT topic, word, class, sum(hit), count(*) FROM (
              SELECT topic, split_part(reason, ':', 1) AS word, {last_class} AS class, CASE WHEN {conditions} THEN 1 ELSE 0 END AS hit FROM r
            ) g GROUP BY topic, word, class ORDER BY topic, word, class";
        mysql: "
            WITH r AS (
              SELECT topic, reason, kind, `key`, errors, dead_at FROM outbox_dead_letters FORCE INDEX (outbox_dead_letters_topic)
              WHERE {range} ORDER BY topic, dead_at LIMIT {rows_max}
            )
            SELECT topic, word, class, CAST(SUM(hit) AS SIGNED), COUNT(*) FROM (
              SELECT topic, SUBSTRING_INDEX(reason, ':', 1) AS word, {last_class} AS class, CASE WHEN {conditions} THEN 1 ELSE 0 END AS hit
              FROM r
            ) g GROUP BY topic, word, class ORDER BY topic, word, class";
        sqlite: "
            WITH r AS (SELECT topic, reason, kind, key, errors, dead_at FROM outbox_dead_letters WHERE {range} ORDER BY topic, dead_at LIMIT {rows_max})
            SELECT topic, word, class, sum(hit), count(*) FROM (
              SELECT topic, substr(reason, 1, instr(reason || ':', ':') - 1) AS word, {last_class} AS class,
                CASE WHEN {conditions} THEN 1 ELSE 0 END AS hit
              FROM r
            ) g GROUP BY topic, word, class ORDER BY topic, word, class";
    }

    keys {
        postgres: "SELECT message_id, topic, lane, key FROM outbox_dead_letters WHERE message_id = ANY($1)";
        mysql: "
            SELECT d.message_id, d.topic, d.lane, d.`key`
            FROM {ids} STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id)";
        sqlite: "SELECT message_id, topic, lane, key FROM outbox_dead_letters WHERE message_id IN ({ids})";
    }

    /// Moves dead letters back to the live messages.
    redrive {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT message_id FROM outbox_dead_letters WHERE message_id = ANY($1) ORDER BY message_id FOR UPDATE SKIP LOCKED
            ), gone AS (
              DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id RETURNING d.*
            ), {insert_live}";
        mysql: LOCK, "
            INSERT INTO outbox_messages
              (id, message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
            SELECT d.id, d.message_id, d.topic, -1, d.`key`, d.kind, d.headers, d.payload, UTC_TIMESTAMP(6), d.deliver_at,
              d.epoch % 2147483647 + 1, d.errors, d.created_at
            FROM {requeues}
            STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) WHERE k.lane < 0", "
            INSERT INTO outbox_messages
              (message_id, topic, lane, `key`, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
            SELECT d.message_id, d.topic, k.lane, d.`key`, d.kind, d.headers, d.payload, {epoch}, d.deliver_at,
              d.epoch % 2147483647 + 1, d.errors, d.created_at
            FROM {requeues}
            STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id) WHERE k.lane >= 0
            ORDER BY d.id",
            REMOVE;
        // ?1 holds the message ids and ?2 the lanes, in the same order.
        sqlite: "
            INSERT INTO outbox_messages
              (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
            SELECT d.id, d.message_id, d.topic, -1, d.key, d.kind, d.headers, d.payload, {now}, d.deliver_at, d.epoch % 2147483647 + 1,
              d.errors, d.created_at
            FROM json_each(?2) k CROSS JOIN outbox_dead_letters d ON d.message_id = substr(?1, 16 * k.key + 1, 16) WHERE k.value < 0
            RETURNING id, message_id", "
            INSERT INTO outbox_messages
              (message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, errors, created_at)
            SELECT d.message_id, d.topic, k.value, d.key, d.kind, d.headers, d.payload, 0, d.deliver_at, d.epoch % 2147483647 + 1,
              d.errors, d.created_at
            FROM json_each(?2) k CROSS JOIN outbox_dead_letters d ON d.message_id = substr(?1, 16 * k.key + 1, 16) WHERE k.value >= 0
            ORDER BY d.id RETURNING id, message_id",
            "DELETE FROM outbox_dead_letters WHERE message_id IN ({ids})";
    }

    purge {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT message_id FROM outbox_dead_letters WHERE message_id = ANY($1) ORDER BY message_id FOR UPDATE
            )
            DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id";
        mysql: REMOVE;
        sqlite: "DELETE FROM outbox_dead_letters WHERE message_id IN ({ids})";
    }

    /// Writes another message in place of a dead letter, if that exists and nobody has it locked.
    replace {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT message_id FROM outbox_dead_letters WHERE message_id = $1 FOR UPDATE SKIP LOCKED
            ), gone AS (
              DELETE FROM outbox_dead_letters d USING l WHERE d.message_id = l.message_id RETURNING d.message_id
            )
            INSERT INTO outbox_messages (message_id, topic, lane, key, kind, headers, payload, due_at)
            SELECT $2, $3, $4::smallint, $5, $6, $7, $8, CASE WHEN $4 >= 0 THEN timestamptz 'epoch' ELSE clock_timestamp() END FROM gone";
        mysql: LOCK, "
            INSERT INTO outbox_messages (message_id, topic, lane, `key`, kind, headers, payload, due_at)
            VALUES (UNHEX(?2), ?3, ?4, ?5, ?6, ?7, ?8, IF(?4 >= 0, {epoch}, UTC_TIMESTAMP(6)))",
            REMOVE;
        sqlite:
            "DELETE FROM outbox_dead_letters WHERE message_id = ?1", "
            INSERT INTO outbox_messages (message_id, topic, lane, key, kind, headers, payload, due_at)
            VALUES (?2, ?3, ?4, ?5, ?6, ?7, ?8, CASE WHEN ?4 >= 0 THEN 0 ELSE {now} END)";
    }
}

const LOCK: &str = "
    SELECT CAST(d.id AS SIGNED), d.message_id
    FROM {ids} STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id)
    FOR UPDATE SKIP LOCKED";

pub(super) const REMOVE: &str = "DELETE d FROM {ids} STRAIGHT_JOIN outbox_dead_letters d FORCE INDEX (PRIMARY) ON d.message_id = UNHEX(k.message_id)";
