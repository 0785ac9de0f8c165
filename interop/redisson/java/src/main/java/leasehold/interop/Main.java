package leasehold.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/**
 * One Redisson client that does what lines on standard input say. Redisson's locks belong to a
 * thread, so every command names one.
 *
 * <pre>
 *   request  TAG THREAD COMMAND ARGUMENT...
 *   answer   TAG BEGAN ENDED ok VALUE
 *            TAG BEGAN ENDED failed EXCEPTION MESSAGE
 * </pre>
 *
 * The first line out is {@code ready VERSION}, of the Redisson that runs. BEGAN and ENDED are
 * nanoseconds of System.nanoTime, which on Linux is CLOCK_MONOTONIC and so the same for all
 * processes of a machine. Answers come in the order in which commands end. When standard input
 * ends the process does at once and releases nothing, as if it were killed.
 *
 * <p>Arguments of the process: {@code single ADDRESS} or {@code cluster ADDRESS,ADDRESS}, then the
 * lockWatchdogTimeout in milliseconds (0: Redisson's default).
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints is no answer
        Commands commands = new Commands(Redisson.create(config(args)));
        answers.println("ready " + Commands.version());
        try {
            serve(commands, answers);
        } finally {
            Runtime.getRuntime().halt(0);
        }
    }

    private static Config config(String[] args) {
        Config config = new Config();
        if (args[0].equals("cluster")) {
            // By default replicas answer what only reads, and they may not know yet what was written.
            config.useClusterServers().setReadMode(ReadMode.MASTER).addNodeAddress(args[1].split(","));
        } else {
            config.useSingleServer().setAddress(args[1]);
        }
        long watchdog = Long.parseLong(args[2]);
        if (watchdog > 0) {
            config.setLockWatchdogTimeout(watchdog);
        }
        return config;
    }

    private static void serve(Commands commands, PrintStream answers) throws IOException {
        Map<String, Caller> callers = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            Request request = Request.parse(line);
            Caller caller =
                    callers.computeIfAbsent(request.thread(), name -> new Caller(name, commands, answers));
            if (request.command().equals("interrupt")) {
                caller.interrupt(request); // not queued: the thread is in the middle of another
            } else {
                caller.add(request);
            }
        }
    }
}
