use crate::store::sql::text::statements;

statements! {
    /// Paused topics.
    PauseSql

    pause {
        postgres: "INSERT INTO outbox_paused_topics (topic) VALUES ($1) ON CONFLICT (topic) DO NOTHING";
        // Not VALUES: both drivers count a row that is there already as one that was written.
        mysql: "
            INSERT INTO outbox_paused_topics (topic, paused_at)
            SELECT ?1, UTC_TIMESTAMP(6) FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM outbox_paused_topics WHERE topic = ?1)
            ON DUPLICATE KEY UPDATE topic = outbox_paused_topics.topic";
        sqlite: "INSERT INTO outbox_paused_topics (topic, paused_at) VALUES (?1, {now}) ON CONFLICT (topic) DO NOTHING";
    }

    resume {
        postgres: "DELETE FROM outbox_paused_topics WHERE topic = $1";
        mysql: "DELETE FROM outbox_paused_topics WHERE topic = ?1";
        sqlite: "DELETE FROM outbox_paused_topics WHERE topic = ?1";
    }

    paused {
        postgres: "SELECT topic, paused_at FROM outbox_paused_topics ORDER BY topic";
        mysql: "SELECT topic, TIMESTAMPDIFF(MICROSECOND, {epoch}, paused_at) FROM outbox_paused_topics ORDER BY topic";
        sqlite: "SELECT topic, paused_at FROM outbox_paused_topics ORDER BY topic";
    }
}
