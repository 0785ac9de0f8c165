package leasehold.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.jar.JarInputStream;

/**
 * One client that does what lines on standard input say. Locks belong to a thread, so every
 * command names one.
 *
 * <pre>
 *   request  TAG THREAD COMMAND ARGUMENT...
 *   answer   TAG BEGAN ENDED ok VALUE
 *            TAG BEGAN ENDED failed EXCEPTION MESSAGE
 * </pre>
 *
 * The first line out is {@code ready VERSION}, of the library that runs. BEGAN and ENDED are
 * nanoseconds of System.nanoTime, which on Linux is CLOCK_MONOTONIC and so the same for all
 * processes of a machine. Answers come in the order in which commands end. When standard input
 * ends the process does at once and releases nothing, as if it were killed.
 */
final class Driver {
    private Driver() {}

    /** Makes a client. */
    interface Opener {
        Command open() throws Exception;
    }

    /** Serves until standard input ends. The version is that of the jar that a class came from. */
    static void serve(Class<?> library, Opener opener) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints is no answer
        try {
            Command command = opener.open();
            answers.println("ready " + version(library));
            answers.flush();
            serve(command, answers);
        } catch (Throwable e) {
            e.printStackTrace();
        } finally {
            Runtime.getRuntime().halt(0); // whatever threads the library has
        }
    }

    private static String version(Class<?> library) throws IOException {
        URL jar = library.getProtectionDomain().getCodeSource().getLocation();
        try (InputStream in = jar.openStream(); JarInputStream content = new JarInputStream(in)) {
            return content.getManifest().getMainAttributes().getValue("Bundle-Version");
        }
    }

    private static void serve(Command command, PrintStream answers) throws IOException {
        Map<String, Caller> callers = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            Request request = Request.parse(line);
            Caller caller =
                    callers.computeIfAbsent(request.thread(), name -> new Caller(name, command, answers));
            if (request.command().equals("interrupt")) {
                caller.interrupt(request); // not queued: the thread is in the middle of another
            } else {
                caller.add(request);
            }
        }
    }
}
