package leasehold.interop;

import java.io.PrintStream;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread that carries out its commands one after the other. */
final class Caller {
    private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
    private final Command command;
    private final PrintStream answers;
    private final Thread thread;

    Caller(String name, Command command, PrintStream answers) {
        this.command = command;
        this.answers = answers;
        thread = new Thread(this::run, "caller " + name);
        thread.setDaemon(true);
        thread.start();
    }

    void add(Request request) {
        requests.add(request);
    }

    /** Interrupts whatever command is under way. The caller of this made sure that one is. */
    void interrupt(Request request) {
        long now = System.nanoTime();
        thread.interrupt();
        answer(request, now, now, "ok");
    }

    private void run() {
        while (true) {
            Request request;
            try {
                request = requests.take();
            } catch (InterruptedException late) {
                continue; // the command had ended before it could be interrupted
            }
            long began = System.nanoTime();
            try {
                String value = command.run(request);
                answer(request, began, System.nanoTime(), "ok " + value);
            } catch (Exception e) {
                String message = String.valueOf(e.getMessage()).replace('\n', ' ');
                answer(request, began, System.nanoTime(), "failed " + e.getClass().getSimpleName() + " " + message);
            }
        }
    }

    private void answer(Request request, long began, long ended, String result) {
        String line = request.tag() + " " + began + " " + ended + " " + result;
        synchronized (answers) {
            answers.println(line);
            answers.flush();
        }
    }
}
