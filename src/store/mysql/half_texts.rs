use crate::naming::TableNames;
use crate::store::half_marks::HalfTexts;
use crate::store::schema::IndexNaming;

pub(super) fn half_texts(names: &TableNames) -> HalfTexts {
    let sql = HalfTexts {
        marked: "SELECT m.message_id \
            FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k \
            STRAIGHT_JOIN outbox_half_messages m FORCE INDEX (PRIMARY) ON m.message_id = UNHEX(k.message_id) \
            WHERE NOT m.is_void",
        // Not INSERT IGNORE, which would take any error well.
        void: "INSERT INTO outbox_half_messages (message_id, topic, is_void) VALUES (UNHEX(?), ?, true) \
            ON DUPLICATE KEY UPDATE is_void = is_void",
        read: "SELECT CAST(is_void AS SIGNED) FROM outbox_half_messages WHERE message_id = UNHEX(?)",
        forget: "DELETE m FROM JSON_TABLE(?, '$[*]' COLUMNS (message_id char(32) CHARACTER SET ascii PATH '$[0]')) k \
            STRAIGHT_JOIN outbox_half_messages m FORCE INDEX (PRIMARY) ON m.message_id = UNHEX(k.message_id)",
        prune: "DELETE FROM outbox_half_messages WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND \
            ORDER BY created_at LIMIT ?",
    };
    sql.named(names, IndexNaming::ByTable)
}
