use crate::naming::TableNames;
use crate::store::half_marks::HalfTexts;
use crate::store::schema::IndexNaming;

pub(super) fn half_texts(names: &TableNames) -> HalfTexts {
    let sql = HalfTexts {
        marked: "SELECT message_id FROM outbox_half_messages WHERE message_id = ANY($1) AND NOT is_void",
        void: "INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES ($1, $2, true) ON CONFLICT DO NOTHING",
        read: "SELECT is_void::integer::bigint FROM outbox_half_messages WHERE message_id = $1",
        forget: "DELETE FROM outbox_half_messages WHERE message_id = ANY($1)",
        prune: "DELETE FROM outbox_half_messages WHERE message_id IN (SELECT message_id FROM outbox_half_messages \
            WHERE created_at < statement_timestamp() - $1 * interval '1 millisecond' \
            ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
    };
    sql.named(names, IndexNaming::ByTable)
}
