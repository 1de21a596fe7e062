use crate::store::sql::text::statements;

statements! {
    /// Claims, from their beginning to their close.
    ClaimSql

    // Rows of a batch under an epoch. CROSS JOIN makes SQLite read the batch first, which is short.
    @held {
        sqlite: "
            SELECT m.id FROM json_each(?1) k CROSS JOIN outbox_messages m ON m.id = json_extract(k.value, '$[0]')
            WHERE m.message_id = substr(?2, 16 * k.key + 1, 16) AND m.epoch = json_extract(k.value, '$[1]')";
    }

    // PostgreSQL: one statement reads the rows and finds the watermark, without locking rows that others hold. The first row
    // returns it. statement_timestamp(), because clock_timestamp() is no index condition and reads every delayed row.
    //
    // Locking begins at that first visible row, not at $2 again. Below it are only index entries of rows that are gone. While
    // somebody's old snapshot keeps them from vacuum, a claim that read them twice read 3.5 times the pages.
    //
    // A payload of up to $4 bytes is returned here, so that all together fit the claim's bytes. A larger one is read separately,
    // once it is known which rows fit. A window that sums the sizes in this statement makes every claim pay for a rare case: 2,000
    // rows of 500 bytes take 16 ms of the server's processor with it and 11 ms without; sorted for it, more than twice.
    //
    // MySQL: without the payloads, because the bytes are limited, and a window that sums them would not lock the rows.
    //
    // SQLite: cut by the lengths alone, and payloads read by primary key, because the window's sort would copy them. It returns at
    // least one row, so the time of reading is known even if nothing is due.
    /// Due rows of a topic.
    claim {
        postgres: "
            WITH f AS MATERIALIZED (
              SELECT due_at FROM outbox_messages WHERE topic = $1 AND lane = -1 AND due_at >= $2 ORDER BY due_at LIMIT 1
            )
            SELECT NULL::bigint AS id, NULL::uuid, NULL::int, NULL::int, NULL::int, NULL::boolean, NULL::text, NULL::text, NULL::text, NULL::bytea,
              statement_timestamp(), NULL::timestamptz, (SELECT due_at FROM f), NULL::tid, NULL::bigint
            UNION ALL
            SELECT * FROM (
              SELECT id, message_id, nullif(epoch, 0), nullif(failures, 0), nullif(attempts, 0), nullif({is_suspect}, false), key, kind,
                nullif(headers, '[]'), CASE WHEN octet_length(payload) <= $4 THEN payload END, created_at, deliver_at, due_at, ctid,
                CASE WHEN octet_length(payload) > $4 THEN octet_length(payload)::bigint END
              FROM outbox_messages
              WHERE topic = $1 AND lane = -1 AND due_at >= (SELECT due_at FROM f) AND due_at <= statement_timestamp()
              ORDER BY outbox_messages.due_at, outbox_messages.id LIMIT $3 FOR UPDATE SKIP LOCKED
            ) c";
        mysql: "
            SELECT CAST(id AS SIGNED), message_id, epoch, failures, attempts, {is_suspect}, `key`, kind, headers, NULL,
              TIMESTAMPDIFF(MICROSECOND, {epoch}, created_at), TIMESTAMPDIFF(MICROSECOND, {epoch}, deliver_at), OCTET_LENGTH(payload)
            FROM outbox_messages FORCE INDEX (outbox_messages_due)
            WHERE topic = ? AND lane = -1 AND due_at >= {from} AND due_at <= UTC_TIMESTAMP(6)
            ORDER BY due_at, id LIMIT ? FOR UPDATE SKIP LOCKED";
        sqlite: "
            WITH due AS MATERIALIZED (
              SELECT id, due_at, coalesce(length(payload), 0) AS bytes FROM outbox_messages
              WHERE topic = ?1 AND lane = -1 AND due_at >= ?2 AND due_at <= {now} ORDER BY due_at, id LIMIT ?3
            ), cut AS (
              SELECT id, count(*) OVER () AS found, row_number() OVER so_far AS place, sum(bytes) OVER so_far AS bytes
              FROM due WINDOW so_far AS (ORDER BY due_at, id)
            )
            SELECT s.read_at, coalesce(c.found, 0), m.due_at,
              m.id, m.message_id, m.epoch, m.failures, m.attempts, {is_suspect}, m.key, m.kind, m.headers, m.payload, m.created_at,
              m.deliver_at
            FROM (SELECT {now} AS read_at) s LEFT JOIN cut c ON c.place = 1 OR c.bytes <= ?4
            LEFT JOIN outbox_messages m ON m.id = c.id";
    }

    /// Payloads that the claim statement left out.
    payloads {
        postgres: "SELECT id, message_id, payload FROM outbox_messages WHERE id = ANY($1)";
        mysql: "
            SELECT CAST(m.id AS SIGNED), m.payload FROM {rows}
            STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id";
    }

    /// The first row of a range, locked or not, if the claim statement did not return it.
    watermark {
        mysql: "
            SELECT TIMESTAMPDIFF(MICROSECOND, {epoch}, UTC_TIMESTAMP(6)), (
              SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND, {epoch}, due_at), -9223372036854775807) FROM outbox_messages
              WHERE topic = ? AND lane = -1 AND due_at >= {from} ORDER BY due_at LIMIT 1
            )";
    }

    /// Leases the rows of a claim, in a database without row locks.
    lease {
        sqlite: "
            UPDATE outbox_messages SET due_at = {now} + ?2, epoch = epoch % 2147483647 + 1 WHERE id IN (SELECT value FROM json_each(?1))";
    }

    // PostgreSQL: this transaction has locked the rows, so locking needs no order, and each row is where the claim found it. Finding rows
    // by position takes a third of the time of finding them by id. The message ids are compared too, because a position does not name the
    // partition, if somebody partitions the table. Nothing is returned: the count tells whether all are gone.
    /// Removes delivered rows of the claim.
    settle_claimed {
        postgres: "DELETE FROM outbox_messages WHERE ctid = ANY($1) AND message_id = ANY($2)";
        mysql: super::live::DELETE;
        sqlite: super::live::SETTLE_SQLITE;
    }

    /// Keeps holding rows of the claim, under the next epoch.
    lease_in_flight {
        postgres: "
            WITH l AS MATERIALIZED (
              SELECT m.id FROM outbox_messages m JOIN unnest($1, $2) AS k(id, message_id) ON m.id = k.id AND m.message_id = k.message_id
              ORDER BY m.id FOR UPDATE OF m SKIP LOCKED
            )
            UPDATE outbox_messages m SET due_at = clock_timestamp() + $3 * interval '1 millisecond', epoch = m.epoch % 2147483647 + 1
            FROM l WHERE m.id = l.id RETURNING m.id, m.message_id, m.epoch";
        mysql: "
            UPDATE {rows} STRAIGHT_JOIN outbox_messages m FORCE INDEX (PRIMARY) ON m.id = k.id
            SET m.due_at = TIMESTAMPADD(MICROSECOND, ?2, UTC_TIMESTAMP(6)), m.epoch = m.epoch % 2147483647 + 1";
        sqlite: "
            UPDATE outbox_messages SET due_at = {now} + ?3, epoch = epoch % 2147483647 + 1 WHERE id IN ({held})
            RETURNING id, message_id, epoch";
    }

    /// Releases leased rows.
    release {
        sqlite: "
            UPDATE outbox_messages SET due_at = {now}, epoch = epoch % 2147483647 + 1 WHERE id IN ({held}) RETURNING id, message_id";
    }
}
