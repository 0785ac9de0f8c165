package leasehold.interop;

/** What a program can be asked to do. */
interface Command {
    /** Carries out a request in the calling thread. What it throws is the answer too. */
    String run(Request request) throws Exception;
}
