package outbox;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Gives a record the headers that a relay sends: the outbox's own, then the message's. Runs behind Debezium's EventRouter, which can
 * only copy a column into one header. Each header becomes bytes, so use ByteArrayConverter as header.converter.
 */
public class OutboxHeaders implements Transformation<SourceRecord> {
    /** The column with the message's headers: a JSON array of [name, text] and [name, {"b64": bytes}]. */
    private static final String PACKED = "outbox-headers";

    private final ObjectMapper json = new ObjectMapper();

    @Override
    public SourceRecord apply(SourceRecord record) {
        Headers given = record.headers();
        String packed = text(given, PACKED);
        if (packed == null) {
            return record; // not a row of the outbox, such as a heartbeat
        }
        var headers = new ConnectHeaders();
        add(headers, "outbox-message-id", text(given, "id"));
        String kind = text(given, "outbox-kind");
        if (kind != null && !kind.isEmpty()) {
            add(headers, "outbox-kind", kind);
        }
        add(headers, "outbox-created-at", millis(text(given, "outbox-created-at")));
        String deliverAt = text(given, "outbox-deliver-at");
        if (deliverAt != null) {
            add(headers, "outbox-deliver-at", millis(deliverAt));
        }
        unpack(packed, headers);
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
            record.valueSchema(), record.value(), record.timestamp(), headers);
    }

    private void unpack(String packed, Headers headers) {
        try {
            for (JsonNode pair : json.readTree(packed)) {
                String name = pair.get(0).textValue();
                JsonNode value = pair.get(1);
                if (value.isTextual()) {
                    add(headers, name, value.textValue());
                } else {
                    headers.addBytes(name, value.get("b64").binaryValue());
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException("not the headers of an outbox: " + packed, error);
        }
    }

    private static String text(Headers headers, String name) {
        Header header = headers.lastWithName(name);
        return header == null || header.value() == null ? null : header.value().toString();
    }

    private static void add(Headers headers, String name, String value) {
        headers.addBytes(name, value.getBytes(StandardCharsets.UTF_8));
    }

    /** A timestamptz, which Debezium writes by ISO 8601. */
    private static String millis(String time) {
        return Long.toString(OffsetDateTime.parse(time).toInstant().toEpochMilli());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {
        // It has no settings.
    }

    @Override
    public void close() {
        // It holds nothing.
    }
}
