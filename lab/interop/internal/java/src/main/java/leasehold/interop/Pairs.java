package leasehold.interop;

import java.util.Arrays;

/** Times of many pairs of lock and unlock. */
final class Pairs {
    private Pairs() {}

    /** Locks and unlocks. */
    interface Pair {
        void make() throws Exception;
    }

    /** How long each took: nanoseconds, in order of size, between spaces. */
    static String time(int times, Pair pair) throws Exception {
        long[] took = new long[times];
        for (int i = 0; i < times; i++) {
            long began = System.nanoTime();
            pair.make();
            took[i] = System.nanoTime() - began;
        }
        Arrays.sort(took);
        StringBuilder text = new StringBuilder();
        for (long t : took) {
            text.append(t).append(' ');
        }
        return text.toString().trim();
    }
}
