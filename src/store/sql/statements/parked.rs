use crate::store::sql::text::statements;

statements! {
    /// What operators do with the records that consumers have parked.
    ParkedSql

    @parked {
        postgres: "id, consumer, topic, partition_name, record_offset, record_key, headers::text, payload, parked_at, holds_key, released,
            replays, error";
        mysql: "id, consumer, topic, partition_name, record_offset, record_key, CAST(headers AS char), payload,
            TIMESTAMPDIFF(MICROSECOND, {epoch}, parked_at), holds_key, released, replays, error";
        sqlite: "id, consumer, topic, partition_name, record_offset, record_key, headers, payload, parked_at, holds_key, released, replays,
            error";
    }
    /// Those after the row `$1`, at most `$2`.
    list {
        postgres: "SELECT {parked} FROM outbox_parked WHERE id > $1 ORDER BY id LIMIT $2";
        mysql: "SELECT {parked} FROM outbox_parked WHERE id > ?1 ORDER BY id LIMIT ?2";
        sqlite: "SELECT {parked} FROM outbox_parked WHERE id > ?1 ORDER BY id LIMIT ?2";
    }
    /// The same, of the consumer `$3`.
    list_of {
        postgres: "SELECT {parked} FROM outbox_parked WHERE id > $1 AND consumer = $3 ORDER BY id LIMIT $2";
        mysql: "SELECT {parked} FROM outbox_parked WHERE id > ?1 AND consumer = ?3 ORDER BY id LIMIT ?2";
        sqlite: "SELECT {parked} FROM outbox_parked WHERE id > ?1 AND consumer = ?3 ORDER BY id LIMIT ?2";
    }
    find {
        postgres: "SELECT {parked} FROM outbox_parked WHERE id = $1";
        mysql: "SELECT {parked} FROM outbox_parked WHERE id = ?1";
        sqlite: "SELECT {parked} FROM outbox_parked WHERE id = ?1";
    }
    release {
        postgres: "UPDATE outbox_parked SET released = 1 WHERE id = $1";
        mysql: "UPDATE outbox_parked SET released = 1 WHERE id = ?1";
        sqlite: "UPDATE outbox_parked SET released = 1 WHERE id = ?1";
    }
    /// The same, of the consumer `$2`.
    release_of {
        postgres: "UPDATE outbox_parked SET released = 1 WHERE id = $1 AND consumer = $2";
        mysql: "UPDATE outbox_parked SET released = 1 WHERE id = ?1 AND consumer = ?2";
        sqlite: "UPDATE outbox_parked SET released = 1 WHERE id = ?1 AND consumer = ?2";
    }
    /// Deletes the record with the id `$1` of the consumer `$2`.
    discard_of {
        postgres: "DELETE FROM outbox_parked WHERE id = $1 AND consumer = $2";
        mysql: "DELETE FROM outbox_parked WHERE id = ?1 AND consumer = ?2";
        sqlite: "DELETE FROM outbox_parked WHERE id = ?1 AND consumer = ?2";
    }
    /// The consumers that these tables know.
    consumers {
        postgres: "SELECT consumer FROM outbox_parked UNION SELECT consumer FROM outbox_consumer_offsets";
        mysql: "SELECT consumer FROM outbox_parked UNION SELECT consumer FROM outbox_consumer_offsets";
        sqlite: "SELECT consumer FROM outbox_parked UNION SELECT consumer FROM outbox_consumer_offsets";
    }
    /// The consumers that an inbox knows.
    inbox_consumers {
        postgres: "SELECT name FROM outbox_inbox_consumers";
        mysql: "SELECT name FROM outbox_inbox_consumers";
        sqlite: "SELECT name FROM outbox_inbox_consumers";
    }
    discard {
        postgres: "DELETE FROM outbox_parked WHERE id = $1";
        mysql: "DELETE FROM outbox_parked WHERE id = ?1";
        sqlite: "DELETE FROM outbox_parked WHERE id = ?1";
    }
}
