import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.Channel;

/** mongo-java-server on 127.0.0.1 with its data in memory, at a port that it prints; it ends with its standard input. */
class Serve {
    /** It knows the greeting of clients under its old name only, and calls itself older than today's clients accept. */
    static class Backend extends MemoryBackend {
        @Override
        public Document handleCommand(Channel channel, String database, String command, Document query) {
            var isGreeting = command.equalsIgnoreCase("hello") || command.equalsIgnoreCase("ismaster");
            var answer = super.handleCommand(channel, database, isGreeting ? "ismaster" : command, query);
            return isGreeting ? answer.append("maxWireVersion", 9) : answer;
        }
    }

    public static void main(String[] arguments) throws Exception {
        var server = new MongoServer(new Backend());
        System.out.println(server.bind().getPort());
        while (System.in.read() >= 0) {}
        server.shutdownNow();
    }
}
