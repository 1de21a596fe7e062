use crate::store::sql::text::statements;

// The channel has the number of the table in its name and not the schema: it would be too long for the 63 bytes of a name, and
// another one for a process that finds the table by its search path.
statements! {
    /// Notices, where a database passes them on.
    NoticeSql

    notify {
        postgres: "SELECT pg_notify('outbox_lanes_' || 'outbox_lanes'::regclass::oid::text, notice) FROM unnest($1) notice";
    }

    channel {
        postgres: "SELECT 'outbox_lanes_' || 'outbox_lanes'::regclass::oid::text";
    }
}
