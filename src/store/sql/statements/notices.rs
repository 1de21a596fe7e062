use crate::store::sql::text::statements;

// The channel name contains the table's number, not its schema. A schema could exceed the 63 bytes of a name, and would differ for
// a process that finds the table by its search path.
statements! {
    /// Notices, in a database that supports them.
    NoticeSql

    notify {
        postgres: "SELECT pg_notify('outbox_lanes_' || 'outbox_lanes'::regclass::oid::text, notice) FROM unnest($1) notice";
    }

    channel {
        postgres: "SELECT 'outbox_lanes_' || 'outbox_lanes'::regclass::oid::text";
    }
}
