use crate::store::sql::text::statements;

statements! {
    /// Who owns which lane.
    LaneSql

    count {
        postgres: "SELECT count(*) FROM outbox_lanes WHERE topic = $1";
        mysql: "SELECT COUNT(*) FROM outbox_lanes WHERE topic = ?1";
        sqlite: "SELECT count(*) FROM outbox_lanes WHERE topic = ?1";
    }

    /// The topics with their number of lanes.
    topics {
        postgres: "SELECT topic, count(*) FROM outbox_lanes GROUP BY topic";
        mysql: "SELECT topic, COUNT(*) FROM outbox_lanes GROUP BY topic";
        sqlite: "SELECT topic, count(*) FROM outbox_lanes GROUP BY topic";
    }

    // Reads the index: a topic's lanes from 0 on are all of its ordered rows.
    /// The first lane, from a given one on, that has rows.
    first_from {
        // `ORDER BY lane` would sort all rows by the result of the cast, which has that name, too.
        postgres: "SELECT m.lane::bigint FROM outbox_messages m WHERE m.topic = $1 AND m.lane >= $2 ORDER BY m.lane LIMIT 1";
        mysql: "
            SELECT CAST(lane AS SIGNED) FROM outbox_messages FORCE INDEX (outbox_messages_due)
            WHERE topic = ?1 AND lane >= ?2 ORDER BY lane LIMIT 1";
        sqlite: "SELECT lane FROM outbox_messages WHERE topic = ?1 AND lane >= ?2 ORDER BY lane LIMIT 1";
    }

    // All or none: if two nodes create different numbers of lanes at once, the second finds those of the first.
    create {
        postgres: "INSERT INTO outbox_lanes (topic, lane) SELECT $1, unnest($2)";
        mysql: "
            INSERT INTO outbox_lanes (topic, lane)
            SELECT ?1, k.lane FROM JSON_TABLE(?2, '$[*]' COLUMNS (lane int PATH '$[0]')) k";
        sqlite: "INSERT INTO outbox_lanes (topic, lane) SELECT ?1, value FROM json_each(?2)";
    }

    // One statement for both tables: an idle relay runs this and little else.
    /// Lanes, and nodes as lane -1.
    read {
        postgres: "
            SELECT l.lane::bigint, l.owner, l.fence, (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint,
              (extract(epoch FROM l.quiet_until - clock_timestamp()) * 1000000)::bigint
            FROM outbox_lanes l WHERE l.topic = $1
            UNION ALL
            SELECT -1, n.node, 0, 0, 0 FROM outbox_nodes n WHERE n.topic = $1 AND n.expires_at > clock_timestamp()";
        mysql: "
            SELECT CAST(lane AS SIGNED), owner, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at),
              TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), quiet_until)
            FROM outbox_lanes WHERE topic = ?1
            UNION ALL
            SELECT -1, node, 0, 0, 0 FROM outbox_nodes WHERE topic = ?1 AND expires_at > UTC_TIMESTAMP(6)";
        sqlite: "
            SELECT lane, owner, fence, expires_at - {now}, quiet_until - {now} FROM outbox_lanes WHERE topic = ?1
            UNION ALL
            SELECT -1, node, 0, 0, 0 FROM outbox_nodes WHERE topic = ?1 AND expires_at > {now}";
    }

    // Nodes that balance lanes of a topic wait for each other, so that they take their shares one after the other.
    lock {
        postgres: "SELECT lane::int FROM outbox_lanes WHERE topic = $1 ORDER BY lane FOR UPDATE";
        mysql: "SELECT CAST(lane AS SIGNED) FROM outbox_lanes WHERE topic = ?1 ORDER BY lane FOR UPDATE";
    }

    /// Removes nodes that are gone.
    prune {
        postgres: "DELETE FROM outbox_nodes WHERE topic = $1 AND expires_at <= clock_timestamp()";
        mysql: "DELETE FROM outbox_nodes WHERE topic = ?1 AND expires_at <= UTC_TIMESTAMP(6)";
        sqlite: "DELETE FROM outbox_nodes WHERE topic = ?1 AND expires_at <= {now}";
    }

    join {
        postgres: "
            INSERT INTO outbox_nodes (topic, node, expires_at) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
            ON CONFLICT (topic, node) DO UPDATE SET expires_at = EXCLUDED.expires_at";
        mysql: "
            INSERT INTO outbox_nodes (topic, node, expires_at)
            VALUES (?1, UNHEX(?2), TIMESTAMPADD(MICROSECOND, ?3, UTC_TIMESTAMP(6)))
            ON DUPLICATE KEY UPDATE expires_at = VALUES(expires_at)";
        sqlite: "
            INSERT INTO outbox_nodes (topic, node, expires_at) VALUES (?1, ?2, {now} + ?3)
            ON CONFLICT (topic, node) DO UPDATE SET expires_at = excluded.expires_at";
    }

    leave {
        postgres: "DELETE FROM outbox_nodes WHERE topic = $1 AND node = $2";
        mysql: "DELETE FROM outbox_nodes WHERE topic = ?1 AND node = UNHEX(?2)";
        sqlite: "DELETE FROM outbox_nodes WHERE topic = ?1 AND node = ?2";
    }

    /// Changes lanes: the number, the fence and the change of each.
    write {
        postgres: "
            UPDATE outbox_lanes l SET fence = k.fence,
              owner = CASE WHEN k.change = 3 THEN NULL ELSE $2 END,
              expires_at = CASE WHEN k.change = 3 THEN clock_timestamp() ELSE clock_timestamp() + $6 * interval '1 millisecond' END,
              quiet_until = CASE WHEN k.change = 2 THEN clock_timestamp() + $7 * interval '1 millisecond' ELSE l.quiet_until END
            FROM unnest($3, $4, $5) AS k(lane, fence, change) WHERE l.topic = $1 AND l.lane = k.lane";
        mysql: "
            UPDATE JSON_TABLE(?3, '$[*]' COLUMNS (lane int PATH '$[0]', fence bigint PATH '$[1]', `change` int PATH '$[2]')) k
            STRAIGHT_JOIN outbox_lanes l FORCE INDEX (PRIMARY) ON l.topic = ?1 AND l.lane = k.lane
            SET l.fence = k.fence, l.owner = IF(k.`change` = 3, NULL, UNHEX(?2)),
              l.expires_at = IF(k.`change` = 3, UTC_TIMESTAMP(6), TIMESTAMPADD(MICROSECOND, ?4, UTC_TIMESTAMP(6))),
              l.quiet_until = IF(k.`change` = 2, TIMESTAMPADD(MICROSECOND, ?5, UTC_TIMESTAMP(6)), l.quiet_until)";
        sqlite: "
            UPDATE outbox_lanes AS l SET fence = json_extract(k.value, '$[1]'),
              owner = CASE json_extract(k.value, '$[2]') WHEN 3 THEN NULL ELSE ?2 END,
              expires_at = {now} + CASE json_extract(k.value, '$[2]') WHEN 3 THEN 0 ELSE ?4 END,
              quiet_until = CASE json_extract(k.value, '$[2]') WHEN 2 THEN {now} + ?5 ELSE l.quiet_until END
            FROM json_each(?3) k WHERE l.topic = ?1 AND l.lane = json_extract(k.value, '$[0]')";
    }
}
