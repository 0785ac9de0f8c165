package leasehold.interop;

import java.util.Arrays;
import java.util.List;

/** One line of standard input. */
record Request(String tag, String thread, String command, List<String> arguments) {
    static Request parse(String line) {
        List<String> words = Arrays.asList(line.split(" "));
        return new Request(words.get(0), words.get(1), words.get(2), words.subList(3, words.size()));
    }

    String argument(int i) {
        return arguments.get(i);
    }

    long number(int i) {
        return Long.parseLong(arguments.get(i));
    }

    boolean has(int i) {
        return i < arguments.size();
    }
}
