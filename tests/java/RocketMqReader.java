import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Prints the first messages of a topic, a line each, as a consumer of an application gets them. */
public class RocketMqReader {
    /** Arguments: name server, topic, subscription to tags, how many messages. */
    public static void main(String[] arguments) throws Exception {
        var left = new CountDownLatch(Integer.parseInt(arguments[3]));
        var consumer = new DefaultMQPushConsumer("reader-" + UUID.randomUUID());
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], arguments[2]);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                print(message);
                left.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        boolean all = left.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        System.exit(all ? 0 : 1);
    }

    private static synchronized void print(MessageExt message) {
        var line = new StringBuilder("message");
        add(line, "body", message.getBody());
        add(line, "keys", bytes(message.getKeys()));
        add(line, "tag", bytes(message.getTags()));
        for (var property : new TreeMap<>(message.getProperties()).entrySet()) {
            add(line, "property " + property.getKey(), bytes(property.getValue()));
        }
        System.out.println(line);
    }

    private static byte[] bytes(String text) {
        return text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
    }

    private static void add(StringBuilder line, String name, byte[] value) {
        line.append('\t').append(name).append('=').append(Base64.getEncoder().encodeToString(value));
    }
}
