package leasehold.interop;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.BoundedExponentialBackoffRetry;

/**
 * One Curator client, driven by lines on standard input.
 *
 * <p>Arguments of the process: {@code HOST:PORT,HOST:PORT}, then the session's time in milliseconds.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        int session = Integer.parseInt(args[1]);
        Driver.serve(
                InterProcessMutex.class, () -> new Commands(connect(args[0], session), args[0], session));
    }

    private static CuratorFramework connect(String servers, int session) throws InterruptedException {
        // An election may take longer than the three tries that are usual.
        var retries = new BoundedExponentialBackoffRetry(100, 1_000, 10);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(servers, session, Math.min(session, 15_000), retries);
        client.start();
        client.blockUntilConnected();
        return client;
    }
}
