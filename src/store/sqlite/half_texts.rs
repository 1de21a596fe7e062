use crate::naming::TableNames;
use crate::store::half_marks::HalfTexts;
use crate::store::schema::IndexNaming;

pub(super) fn half_texts(names: &TableNames) -> HalfTexts {
    let sql = HalfTexts {
        marked: "WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1)) \
            SELECT message_id FROM outbox_half_messages \
            WHERE message_id IN (SELECT substr(?1, place, 16) FROM k) AND NOT is_void",
        void: "INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES (?1, ?2, 1) ON CONFLICT DO NOTHING",
        read: "SELECT is_void FROM outbox_half_messages WHERE message_id = ?1",
        forget: "WITH RECURSIVE k(place) AS (SELECT 1 UNION ALL SELECT place + 16 FROM k WHERE place + 16 <= length(?1)) \
            DELETE FROM outbox_half_messages WHERE message_id IN (SELECT substr(?1, place, 16) FROM k)",
        prune: "DELETE FROM outbox_half_messages WHERE message_id IN (SELECT message_id FROM outbox_half_messages \
            WHERE created_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?1 \
            ORDER BY created_at LIMIT ?2)",
    };
    sql.named(names, IndexNaming::ByIndex)
}
