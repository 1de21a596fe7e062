//! Parts of statements in several files.

macro_rules! fragments {
    ($($fragment:ident { $($of:ident: $sql:expr;)+ })+) => {
        /// The parts for a database: a name in braces, and its text.
        pub(super) fn of(database: &str) -> Vec<(&'static str, &'static str)> {
            vec![$((
                concat!("{", stringify!($fragment), "}"),
                match database { $(stringify!($of) => $sql,)+ _ => "" },
            ),)+]
        }
    };
}

fragments! {
    // Whether a row waits for its delivery time, and not for an attempt.
    is_delayed {
        postgres: "(epoch = 0 AND deliver_at IS NOT NULL)";
        mysql: "(epoch = 0 AND deliver_at IS NOT NULL)";
        sqlite: "(epoch = 0 AND deliver_at IS NOT NULL)";
    }

    // Whether a row's last failure was a refusal. Errors from before it was a dead letter do not count, and invalid JSON fails no
    // claim. On MySQL not by `$[last]`, which MariaDB knows from 10.9 on; the index is never below 0, which is no path.
    is_suspect {
        postgres: "(failures > 0 AND coalesce(errors -> -1 ->> 'class' = 'record_refused', false))";
        mysql: "IF(failures > 0, \
            JSON_UNQUOTE(JSON_EXTRACT(errors, CONCAT('$[', GREATEST(JSON_LENGTH(errors), 1) - 1, '].class'))) <=> 'record_refused', 0)";
        sqlite: "CASE WHEN m.failures = 0 THEN 0 WHEN json_valid(m.errors) = 0 THEN 0 \
            ELSE coalesce(json_extract(m.errors, '$[#-1].class') = 'record_refused', 0) END";
    }

    // Moves rows to the dead letters. PostgreSQL: the rows that `l` has locked, with their reasons. SQLite: the rows of a join; the
    // reason follows.
    dead_letter {
        postgres: "gone AS (
              DELETE FROM outbox_messages m USING l WHERE m.id = l.id
              RETURNING m.id, m.message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch, attempts, failures,
                errors, created_at, l.reason
            ), kept AS (
              INSERT INTO outbox_dead_letters (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch,
                attempts, failures, errors, created_at, reason)
              SELECT * FROM gone ON CONFLICT (message_id) DO NOTHING
            )
            SELECT id, message_id FROM gone";
        sqlite: "INSERT INTO outbox_dead_letters (id, message_id, topic, lane, key, kind, headers, payload, due_at, deliver_at, epoch,
              attempts, failures, errors, created_at, reason)
            SELECT m.id, m.message_id, m.topic, m.lane, m.key, m.kind, m.headers, m.payload, m.due_at, m.deliver_at, m.epoch,
              m.attempts, m.failures, m.errors, m.created_at";
    }

    // How a failure changes a row, except for due_at.
    failure {
        postgres: "epoch = m.epoch % 2147483647 + 1, failures = least(m.failures, 2147483646) + 1, attempts = least(m.attempts, 2147483646) + l.spends,
              errors = {errors} || jsonb_build_object('at', {failed_at}, 'class', l.class, 'error', l.error)";
        mysql: "m.epoch = m.epoch % 2147483647 + 1, m.failures = LEAST(m.failures, 2147483646) + 1,
              m.attempts = LEAST(m.attempts, 2147483646) + k.spends,
              m.errors = JSON_ARRAY_APPEND({errors}, '$', JSON_OBJECT('at', {failed_at}, 'class', k.class, 'error', k.error))";
        sqlite: "epoch = m.epoch % 2147483647 + 1, failures = min(m.failures, 2147483646) + 1,
              attempts = min(m.attempts, 2147483646) + json_extract(k.value, '$[3]'),
              errors = json_insert({errors}, '$[#]', json_object('at', {failed_at},
                'class', json_extract(k.value, '$[4]'), 'error', json_extract(k.value, '$[5]')))";
    }

    // The errors before a new one: at most 10 with it, which is `limits::ERRORS_KEPT_MAX`. A value edited by hand that is no array
    // would fail the statement and its whole batch, so it is replaced.
    errors {
        postgres: "CASE WHEN jsonb_typeof(m.errors) <> 'array' THEN '[]'::jsonb \
            WHEN jsonb_array_length(m.errors) < 10 THEN m.errors ELSE m.errors - 0 END";
        mysql: "CASE WHEN NOT (JSON_TYPE(m.errors) <=> 'ARRAY') THEN JSON_ARRAY() \
            WHEN JSON_LENGTH(m.errors) < 10 THEN m.errors ELSE JSON_REMOVE(m.errors, '$[0]') END";
        sqlite: "CASE WHEN json_valid(m.errors) = 0 THEN '[]' WHEN json_type(m.errors) <> 'array' THEN '[]' \
            WHEN json_array_length(m.errors) < 10 THEN m.errors ELSE json_remove(m.errors, '$[0]') END";
    }

    // The time of a failure, as stored in the errors.
    failed_at {
        postgres: "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
        mysql: "DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')";
        sqlite: "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
    }

    // Messages of a batch.
    ids {
        mysql: "JSON_TABLE(?1, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k";
        sqlite: "
            WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1))
            SELECT substr(?1, place, 16) FROM k";
    }

    // Requeued messages and their lanes.
    requeues {
        mysql: "JSON_TABLE(?1, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]', lane int PATH '$[1]')) k";
    }

    // Rows of a batch by their ids alone.
    rows {
        mysql: "JSON_TABLE(?1, '$[*]' COLUMNS (id bigint unsigned PATH '$[0]')) k";
    }

    // Where a claim or a poll begins: a time after 1970, or the beginning if no instant is that early. The beginning is the year 0,
    // which the time functions do not accept as an instant, but MariaDB by default allows in a column (`due_at = 0`).
    from {
        mysql: "COALESCE(TIMESTAMPADD(MICROSECOND, ?, TIMESTAMP'1970-01-01 00:00:00'), FROM_DAYS(0))";
    }

    epoch {
        mysql: "TIMESTAMP'1970-01-01 00:00:00'";
    }

    // On SQLite milliseconds since 1970. Not `unixepoch('subsec')`, which is NULL before SQLite 3.42.
    now {
        sqlite: "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)";
    }

    // Days since 1970.
    today {
        sqlite: "CAST(julianday('now') - 2440587.5 AS integer)";
    }
}
