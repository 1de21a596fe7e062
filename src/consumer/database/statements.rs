//! The statements about a consumer's progress and its parked records.

use crate::store::sql::text::statements;

statements! {
    /// `$1` is the consumer, `$2` the topic and `$3` the partition, wherever a statement has them.
    ConsumerSql
    @parked_row {
        postgres: "id, record_offset, record_key, headers::text, payload, sent_at_ms";
        mysql: "id, record_offset, record_key, CAST(headers AS char), payload, sent_at_ms";
        sqlite: "id, record_offset, record_key, headers, payload, sent_at_ms";
    }
    /// Begins at `$4`, unless the partition is there. It waits for the row's lock, so it comes after a read.
    add_offset {
        postgres: "INSERT INTO outbox_consumer_offsets (consumer, topic, partition_name, next_offset) VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING";
        mysql: "INSERT INTO outbox_consumer_offsets (consumer, topic, partition_name, next_offset) VALUES (?1, ?2, ?3, ?4)
            ON DUPLICATE KEY UPDATE next_offset = next_offset";
        sqlite: "INSERT INTO outbox_consumer_offsets (consumer, topic, partition_name, next_offset) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT DO NOTHING";
    }
    read_offset {
        postgres: "SELECT next_offset FROM outbox_consumer_offsets WHERE consumer = $1 AND topic = $2 AND partition_name = $3";
        mysql: "SELECT next_offset FROM outbox_consumer_offsets WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3";
        sqlite: "SELECT next_offset FROM outbox_consumer_offsets WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3";
    }
    /// Moves it from `$4` to `$5`. It changes no row if another process has moved it.
    move_offset {
        postgres: "UPDATE outbox_consumer_offsets SET next_offset = $5
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND next_offset = $4";
        mysql: "UPDATE outbox_consumer_offsets SET next_offset = ?5
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND next_offset = ?4";
        sqlite: "UPDATE outbox_consumer_offsets SET next_offset = ?5
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND next_offset = ?4";
    }
    /// The same, sent together with BEGIN: it fails unless the transaction is flagged.
    #[cfg_attr(
        not(all(feature = "postgres", any(test, feature = "deadpool", feature = "bb8", feature = "mobc"))),
        expect(dead_code, reason = "only diesel-async's connections of PostgreSQL send them together")
    )]
    move_offset_flagged {
        postgres: "UPDATE outbox_consumer_offsets SET next_offset = CASE
                WHEN current_setting('outbox.transaction_1', true) = 'open' THEN $5
                ELSE ('outbox: the transaction is lost ' || current_setting('server_version'))::bigint END
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND next_offset = $4";
    }
    /// Begins the savepoint of a batch. Its release fails where the transaction is not the same any more. SQLite first takes its lock: a
    /// handler that reads before it writes would be refused if another worker has written meanwhile.
    batch_savepoint {
        postgres: "SAVEPOINT record_batch";
        mysql: "SAVEPOINT record_batch";
        sqlite: "UPDATE outbox_consumer_offsets SET next_offset = next_offset WHERE 1 = 0; SAVEPOINT record_batch";
    }
    /// Parks a record, unless it is there: somebody has moved the offset back. Of the primary key a conflict is an error: a sequence that
    /// was restored is behind, and the record would be lost.
    park {
        postgres: "INSERT INTO outbox_parked
                (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms, holds_key, error)
            VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $10)
            ON CONFLICT (consumer, topic, partition_name, record_offset, sent_at_ms) DO NOTHING";
        mysql: "INSERT INTO outbox_parked
                (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms, holds_key, error)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
            ON DUPLICATE KEY UPDATE id = id";
        sqlite: "INSERT INTO outbox_parked
                (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms, parked_at, holds_key, error)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), ?9, ?10)
            ON CONFLICT (consumer, topic, partition_name, record_offset, sent_at_ms) DO NOTHING";
    }
    /// Whether the record at the offset `$4`, of the time `$5`, is there.
    is_parked {
        postgres: "SELECT count(*) FROM outbox_parked
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND record_offset = $4 AND sent_at_ms = $5";
        mysql: "SELECT count(*) FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND record_offset = ?4 AND sent_at_ms = ?5";
        sqlite: "SELECT count(*) FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND record_offset = ?4 AND sent_at_ms = ?5";
    }
    /// Keys with parked records; NULL if there are some that were parked alone.
    parked_keys {
        postgres: "SELECT DISTINCT CASE WHEN holds_key = 1 THEN record_key END FROM outbox_parked
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3";
        mysql: "SELECT DISTINCT CASE WHEN holds_key = 1 THEN record_key END FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3";
        sqlite: "SELECT DISTINCT CASE WHEN holds_key = 1 THEN record_key END FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3";
    }
    /// Locks the first parked record of the key `$4`, so that no replay ends meanwhile.
    lock_key {
        postgres: "SELECT {parked_row} FROM outbox_parked
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND substr(record_key, 1, 255) = substr($4, 1, 255)
                AND record_key = $4 AND holds_key = 1
            ORDER BY id LIMIT 1 FOR UPDATE";
        mysql: "SELECT {parked_row} FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND record_key = ?4 AND holds_key = 1
            ORDER BY id LIMIT 1 FOR UPDATE";
        sqlite: "SELECT {parked_row} FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND record_key = ?4 AND holds_key = 1
            ORDER BY id LIMIT 1";
    }
    /// Locks the row `$4`.
    lock_row {
        postgres: "SELECT {parked_row} FROM outbox_parked
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND id = $4 FOR UPDATE";
        mysql: "SELECT {parked_row} FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND id = ?4 FOR UPDATE";
        sqlite: "SELECT {parked_row} FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND id = ?4";
    }
    /// Released records, in order.
    released {
        postgres: "SELECT id, record_key, holds_key FROM outbox_parked
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND released = 1 ORDER BY id LIMIT 500";
        mysql: "SELECT id, record_key, holds_key FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND released = 1 ORDER BY id LIMIT 500";
        sqlite: "SELECT id, record_key, holds_key FROM outbox_parked
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND released = 1 ORDER BY id LIMIT 500";
    }
    /// Removes the row `$1`.
    unpark {
        postgres: "DELETE FROM outbox_parked WHERE id = $1";
        mysql: "DELETE FROM outbox_parked WHERE id = ?1";
        sqlite: "DELETE FROM outbox_parked WHERE id = ?1";
    }
    /// Takes the releases of the key `$4`.
    take_key {
        postgres: "UPDATE outbox_parked SET released = 0, replays = replays + 1
            WHERE consumer = $1 AND topic = $2 AND partition_name = $3 AND substr(record_key, 1, 255) = substr($4, 1, 255)
                AND record_key = $4 AND holds_key = 1 AND released = 1";
        mysql: "UPDATE outbox_parked SET released = 0, replays = replays + 1
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND record_key = ?4 AND holds_key = 1 AND released = 1";
        sqlite: "UPDATE outbox_parked SET released = 0, replays = replays + 1
            WHERE consumer = ?1 AND topic = ?2 AND partition_name = ?3 AND record_key = ?4 AND holds_key = 1 AND released = 1";
    }
    /// Takes the release of the row `$1`.
    take_row {
        postgres: "UPDATE outbox_parked SET released = 0, replays = replays + 1 WHERE id = $1 AND released = 1";
        mysql: "UPDATE outbox_parked SET released = 0, replays = replays + 1 WHERE id = ?1 AND released = 1";
        sqlite: "UPDATE outbox_parked SET released = 0, replays = replays + 1 WHERE id = ?1 AND released = 1";
    }
    /// Notes the error `$2` of the row `$1`.
    not_replayed {
        postgres: "UPDATE outbox_parked SET error = $2 WHERE id = $1";
        mysql: "UPDATE outbox_parked SET error = ?2 WHERE id = ?1";
        sqlite: "UPDATE outbox_parked SET error = ?2 WHERE id = ?1";
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;
    use crate::naming::TableNames;
    use crate::store::sql::dialect::Dialect;
    use crate::store::sql::text::{INJECTED_BUGS, SqlRenderer};

    #[test]
    fn both_texts_that_move_an_offset_compare_it() {
        let names = TableNames::default();
        let renderer = SqlRenderer { syntax: diesel::pg::Pg::SYNTAX, names: &names, fragments: Vec::new() };
        let sql = ConsumerSql::new(&renderer);
        for (name, text) in [("move_offset", &sql.move_offset), ("move_offset_flagged", &sql.move_offset_flagged)] {
            let bug = INJECTED_BUGS.iter().find(|(of, ..)| *of == name);
            let (_, _, [right, _]) = bug.expect("the fault harness injects a bug");
            assert!(text.first().sql.contains(right), "{name}");
        }
    }
}
