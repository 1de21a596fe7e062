use crate::store::sql::text::statements;

statements! {
    /// Paused topics.
    PauseSql

    pause {
        postgres: "INSERT INTO outbox_paused_topics (topic) VALUES ($1) ON CONFLICT (topic) DO NOTHING";
        mysql: "
            INSERT INTO outbox_paused_topics (topic, paused_at) VALUES (?1, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE topic = topic";
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
