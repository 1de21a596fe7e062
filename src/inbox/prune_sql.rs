//! The statements of a prune. Each is a transaction of its own: the start moves before anything below it is removed.

/// On one database. A name in braces is replaced.
#[derive(Debug)]
pub struct PruneSql {
    /// Notes the consumer's name and retention.
    pub(crate) register: &'static str,
    /// Moves the start, never back, to the beginning of a day in UTC by the database's clock. The longest retention of all consumers
    /// counts.
    pub(crate) advance: &'static str,
    /// Reads it.
    pub(crate) start: &'static str,
    /// Deletes a number of entries below it.
    pub(crate) delete: &'static str,
    /// Returns DDL that removes and creates partitions.
    pub(crate) partitions: Option<&'static str>,
}

#[cfg(feature = "postgres")]
pub(crate) const POSTGRES: PruneSql = PruneSql {
    register: "INSERT INTO {consumers} AS c (consumer, name, keep_days) VALUES ({number}, '{name}', {keep_days}) \
               ON CONFLICT (consumer) DO UPDATE SET keep_days = excluded.keep_days WHERE c.keep_days <> excluded.keep_days",
    // Two at once could move it back: a sequence has no row that they lock.
    advance: "DO $$ BEGIN PERFORM pg_advisory_xact_lock({lock}); \
              PERFORM setval('{start}', greatest(last_value, (floor(extract(epoch FROM clock_timestamp()) / 86400)::bigint \
                - (SELECT max(keep_days) FROM {consumers})) * 86400000)) FROM {start}; END $$",
    start: "SELECT last_value::text FROM {start}",
    delete: "DELETE FROM {entries}_default WHERE ctid = ANY (ARRAY (SELECT ctid FROM {entries}_default \
             WHERE message_id < '{kept_from}' ORDER BY message_id LIMIT {rows} FOR UPDATE SKIP LOCKED))",
    partitions: Some(POSTGRES_PARTITIONS),
};

/// A day below the start is emptied first, which locks that partition alone, and hardly a claim needs it. Dropping it locks all of them, so an
/// open claim delays that; the next prune tries again.
///
/// A partition is attached, because creating it as PARTITION OF locks all of them. ATTACH reads the whole default partition, so there
/// is one at a time while that is large. A day with rows there is left out: it cannot be attached. (A row that comes in between is the
/// check's violation. Of two prunes that create the same one, the later finds a name in the catalog's index: `unique_violation`.)
#[cfg(feature = "postgres")]
const POSTGRES_PARTITIONS: &str = "
    WITH s AS (
      SELECT (to_timestamp(last_value / 1000.0) AT TIME ZONE 'UTC')::date AS start, (statement_timestamp() AT TIME ZONE 'UTC')::date AS today
      FROM {start}
    ), days AS (
      SELECT day, to_char(day, 'YYYYMMDD') AS name,
        (lpad(to_hex((day - date '1970-01-01')::bigint * 86400000), 12, '0') || repeat('0', 20))::uuid AS first,
        (lpad(to_hex((day + 1 - date '1970-01-01')::bigint * 86400000), 12, '0') || repeat('0', 20))::uuid AS next, today
      FROM s CROSS JOIN LATERAL (
        SELECT today + n AS day FROM generate_series(greatest(start - today, -{days_back}), {days_ahead}) AS n
      ) n
    ), missing AS (
      SELECT * FROM days d WHERE to_regclass('{entries}_' || name) IS NULL
        AND NOT EXISTS (SELECT 1 FROM {entries}_default e WHERE e.message_id >= d.first AND e.message_id < d.next)
      ORDER BY day < today, abs(day - today)
      LIMIT CASE WHEN pg_relation_size('{entries}_default') > {default_bytes} THEN 1 ELSE {partitions} END
    )
    SELECT format('DO $do$ BEGIN SET LOCAL lock_timeout = {drop_timeout};
        IF pg_relation_size(%1$L::regclass) > 0 THEN TRUNCATE %1$s; END IF;
        BEGIN DROP TABLE %1$s; EXCEPTION WHEN lock_not_available THEN RAISE DEBUG ''an open claim keeps it''; END;
      EXCEPTION WHEN lock_not_available OR undefined_table THEN RAISE DEBUG ''another prune comes''; END $do$', name)
    FROM (
      SELECT i.inhrelid::regclass::text AS name
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN s
      WHERE i.inhparent = to_regclass('{entries}') AND starts_with(c.relname, '{unqualified}_')
        AND substr(c.relname, length('{unqualified}_') + 1) ~ '^[0-9]{8}$' AND right(c.relname, 8) < to_char(start, 'YYYYMMDD')
      ORDER BY c.relname LIMIT {partitions}
    ) expired
    UNION ALL
    SELECT format('DO $do$ BEGIN SET LOCAL lock_timeout = {attach_timeout};
        CREATE TABLE {entries}_%1$s (LIKE {entries} INCLUDING ALL);
        ALTER TABLE {entries} ATTACH PARTITION {entries}_%1$s FOR VALUES FROM (%2$L) TO (%3$L);
      EXCEPTION WHEN lock_not_available OR duplicate_table OR unique_violation OR check_violation
        THEN RAISE DEBUG ''another prune comes''; END $do$', name, first, next)
    FROM missing";

#[cfg(feature = "mysql")]
pub(crate) const MYSQL: PruneSql = PruneSql {
    register: "INSERT INTO {consumers} (consumer, name, keep_days) VALUES ({number}, '{name}', {keep_days}) \
               ON DUPLICATE KEY UPDATE keep_days = VALUES(keep_days)",
    advance: "UPDATE {start} SET kept_from = GREATEST(kept_from, \
              (DATEDIFF(UTC_DATE(), '1970-01-01') - (SELECT MAX(keep_days) FROM {consumers})) * 86400000)",
    start: "SELECT CAST(kept_from AS char) FROM {start}",
    delete: "DELETE FROM {entries} WHERE message_id < X'{kept_from}' ORDER BY message_id, consumer LIMIT {rows}",
    partitions: None,
};

#[cfg(feature = "sqlite")]
pub(crate) const SQLITE: PruneSql = PruneSql {
    register: "INSERT INTO {consumers} (consumer, name, keep_days) VALUES ({number}, '{name}', {keep_days}) \
               ON CONFLICT (consumer) DO UPDATE SET keep_days = excluded.keep_days",
    advance: "UPDATE {start} SET kept_from = max(kept_from, \
              (CAST(julianday('now') - 2440587.5 AS integer) - (SELECT max(keep_days) FROM {consumers})) * 86400000)",
    start: "SELECT CAST(kept_from AS text) FROM {start}",
    delete: "DELETE FROM {entries} WHERE (message_id, consumer) IN (SELECT message_id, consumer FROM {entries} \
             WHERE message_id < X'{kept_from}' ORDER BY message_id, consumer LIMIT {rows})",
    partitions: None,
};
