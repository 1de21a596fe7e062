import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints the first records of a topic, a line each, as a consumer of an application gets them. */
public class KafkaReader {
    /** Arguments: bootstrap servers, topic, how many records. */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", "reader-of-" + arguments[1],
            "auto.offset.reset", "earliest",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        int left = Integer.parseInt(arguments[2]);
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings)) {
            consumer.subscribe(List.of(arguments[1]));
            while (left > 0 && System.nanoTime() < end) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    print(record);
                    left--;
                }
            }
        }
        System.exit(left > 0 ? 1 : 0);
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        var line = new StringBuilder("message");
        add(line, "body", record.value());
        add(line, "keys", record.key());
        add(line, "timestamp", Long.toString(record.timestamp()).getBytes(StandardCharsets.UTF_8));
        for (var header : record.headers()) {
            add(line, "property " + header.key(), header.value());
        }
        System.out.println(line);
    }

    private static void add(StringBuilder line, String name, byte[] value) {
        line.append('\t').append(name).append('=');
        line.append(value == null ? "null" : Base64.getEncoder().encodeToString(value));
    }
}
